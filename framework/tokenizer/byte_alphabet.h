// SPDX-License-Identifier: Apache-2.0
// Byte-level tokenizer files write each byte as one printable character: 0x21 to 0x7E, 0xA1 to 0xAC and 0xAE
// to 0xFF stand for themselves, the other 68 bytes in their order for U+0100 and up. (So GPT-2 came to write
// a space as U+0120.)
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

// The bytes that `text` writes; none when a character stands for no byte.
std::optional<std::string> from_byte_alphabet(std::string_view text);

std::string to_byte_alphabet(std::string_view bytes);

}  // namespace tessera
