// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/byte_alphabet.h"

#include <array>

#include "framework/tokenizer/utf8.h"

namespace tessera {
namespace {

constexpr char32_t kShifted = 0x100, kAlphabetEnd = 0x100 + 68;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int, kAlphabetEnd> byte{};  // -1: none
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte.fill(-1);
  char32_t next = kShifted;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t character = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
    alphabet.character[static_cast<size_t>(byte)] = character;
    alphabet.byte[character] = byte;
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const int length = utf8_length(text);
    if (length <= 0) return std::nullopt;
    const char32_t character = utf8_value(text.data(), length);
    if (character >= kAlphabetEnd || kAlphabet.byte[character] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[character]));
    text.remove_prefix(static_cast<size_t>(length));
  }
  return bytes;
}

std::string to_byte_alphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_utf8(text, kAlphabet.character[static_cast<unsigned char>(byte)]);
  return text;
}

}  // namespace tessera
