// SPDX-License-Identifier: Apache-2.0
// Two pieces of work of one thread that take turns, as coroutines do: where one would only wait, the other
// goes on. Turns change at give_turn() and nowhere else, so the order of all that happens is that of the
// code, the same on every rank that runs the same two pieces, whatever the timing.
#pragma once
#include <functional>

namespace tessera {

// Runs both to their ends on the calling thread, beginning with `first`. `on_turn` hears whose turn begins: 0
// or 1. When a piece throws, the other is unwound from where it gave its turn away, and the call throws the
// same. Not to be used within a piece of another.
void take_turns(const std::function<void()>& first, const std::function<void()>& second,
                const std::function<void(int)>& on_turn = {});

// In a piece of take_turns(): the other goes on, and this returns when it gives the turn back or ends. Does
// nothing elsewhere, and while an exception passes by.
void give_turn();

}  // namespace tessera
