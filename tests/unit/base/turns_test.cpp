// SPDX-License-Identifier: Apache-2.0
#include "framework/base/turns.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

namespace tessera {
namespace {

// Writes name1, name2, ... and gives its turn between them.
std::function<void()> writer(std::string& order, char name, int parts) {
  return [&order, name, parts] {
    for (int part = 1; part <= parts; ++part) {
      if (part > 1) give_turn();
      order += name + std::to_string(part) + " ";
    }
  };
}

TEST(Turns, ChangeWhereTheyAreGivenAndNowhereElse) {
  std::string order;
  take_turns(writer(order, 'a', 3), writer(order, 'b', 4));
  EXPECT_EQ(order, "a1 b1 a2 b2 a3 b3 b4 ");
  order.clear();
  take_turns(writer(order, 'a', 4), writer(order, 'b', 2));
  EXPECT_EQ(order, "a1 b1 a2 b2 a3 a4 ");
}

TEST(Turns, AreHeardAsTheyBegin) {
  std::string heard;
  take_turns([] { give_turn(); }, [] { give_turn(); }, [&](int turn) { heard += std::to_string(turn); });
  EXPECT_EQ(heard, "0101");
  heard.clear();
  take_turns([] {}, [] {}, [&](int turn) { heard += std::to_string(turn); });
  EXPECT_EQ(heard, "01");
}

TEST(Turns, APieceThatEndsLeavesTheOtherAlone) {
  int count = 0;
  take_turns([&] { give_turn(); },
             [&] {
               for (; count < 100; ++count) give_turn();
             });
  EXPECT_EQ(count, 100);
  take_turns(
      [&] {
        for (; count > 0; --count) give_turn();
      },
      [] {});
  EXPECT_EQ(count, 0);
}

TEST(Turns, GivingOneElsewhereDoesNothing) {
  give_turn();
  take_turns([] { std::thread([] { give_turn(); }).join(); }, [] {});
}

// Counts the objects that are alive.
struct Alive {
  explicit Alive(int& count) : count_(count) { ++count_; }
  Alive(const Alive&) = delete;
  Alive& operator=(const Alive&) = delete;
  // A destructor that would wait.
  ~Alive() {
    give_turn();
    --count_;
  }
  int& count_;
};

TEST(Turns, AnErrorOfEitherUnwindsBothAndIsThrown) {
  for (const int thrower : {0, 1})
    for (const int at : {0, 1, 2}) {
      SCOPED_TRACE(std::to_string(thrower) + " throws after " + std::to_string(at) + " turns");
      int alive = 0, ended = 0;
      const auto piece = [&](int index) {
        const Alive object(alive);
        for (int turn = 0; turn < 3; ++turn) {
          if (index == thrower && turn == at) throw std::runtime_error("piece " + std::to_string(index));
          give_turn();
        }
        ++ended;
      };
      try {
        take_turns([&] { piece(0); }, [&] { piece(1); });
        ADD_FAILURE() << "nothing was thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), "piece " + std::to_string(thrower));
      }
      EXPECT_EQ(alive, 0);
      EXPECT_EQ(ended, 0);
    }
  // And turns can be taken again.
  int pieces = 0;
  take_turns([&] { ++pieces; }, [&] { ++pieces; });
  EXPECT_EQ(pieces, 2);
}

TEST(Turns, CannotBeCutTwice) {
  EXPECT_THROW(take_turns([] { take_turns([] {}, [] {}); }, [] {}), std::exception);
}

// As deep as a thread of its own could go, on each of two threads.
TEST(Turns, TheSecondPieceHasRoom) {
  const auto use = [] {
    take_turns([] { give_turn(); },
               [] {
                 volatile char room[4 << 20];
                 for (size_t i = 0; i < sizeof room; i += 4096) room[i] = 1;
                 give_turn();
                 EXPECT_EQ(room[0], 1);
               });
  };
  std::thread other(use);
  use();
  other.join();
}

}  // namespace
}  // namespace tessera
