#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes framework/tokenizer/unicode_tables.h: where the Unicode versions of Debian's libraries and of the reference
differ. Needs Python with Unicode 14 (3.11), as PCRE2 10.42 has, and the package `tokenizers`.
"""
import pathlib
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So".split()
EVERYTHING = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def reference_category(category):
    split = pre_tokenizers.Split(Regex(rf"\p{{{category}}}"), "removed")
    return set(EVERYTHING) - set("".join(text for text, _ in split.pre_tokenize_str("".join(EVERYTHING))))


def ranges(characters):
    """Runs of (character, value) with equal values."""
    runs = []
    for character, value in sorted(characters):
        code = ord(character)
        if runs and runs[-1][1] == code - 1 and runs[-1][2] == value:
            runs[-1][1] = code
        else:
            runs.append([code, code, value])
    return runs


def stand_in(character, category):
    """The first assigned character of the category in Unicode 14 with as many bytes."""
    size = len(character.encode())
    return next(c for c in EVERYTHING if len(c.encode()) == size and unicodedata.category(c) == category)


def newer_letters():
    found = []
    for category in CATEGORIES:
        newer = [c for c in reference_category(category) if unicodedata.category(c) != category]
        stand_ins = {}
        for c in newer:
            size = len(c.encode())
            if size not in stand_ins:
                stand_ins[size] = stand_in(c, category)
            found.append((c, ord(stand_ins[size])))
    return ranges(found)


def inert_characters():
    def moves(normalize, c):
        return (normalize("x\u0301" + c) == "x\u0301" + c, normalize("x" + c + "\u0334") == "x" + c + "\u0334")

    nfd, forms = normalizers.NFD(), [(name, getattr(normalizers, name)()) for name in ("NFC", "NFD", "NFKC", "NFKD")]
    newer = set("\U00011930\U00011935\U00011938")  # the only pair that newer versions compose
    newer.add("\u11A7")  # what utf8proc 2.8 takes for a final consonant of Hangul, and drops
    # utf8proc 2.8 knows Unicode 15, which Python does not.
    for category in ("Mn", "Lm"):
        newer |= {c for c in reference_category(category) if unicodedata.category(c) == "Cn"}
    for c in EVERYTHING:
        ours, theirs = moves(lambda text: unicodedata.normalize("NFD", text), c), moves(nfd.normalize_str, c)
        if ours != theirs or any(form.normalize_str(c) != unicodedata.normalize(name, c) for name, form in forms):
            newer.add(c)
    return ranges((c, 0) for c in newer)


def main():
    assert unicodedata.unidata_version == "14.0.0", "needs Unicode 14"
    letters, inert = newer_letters(), inert_characters()
    lines = ["// SPDX-License-Identifier: Apache-2.0",
             "// Made by scripts/make_unicode_tables.py. The reference, `tokenizers`, knows Unicode 16 in patterns and Unicode 9 in",
             "// normal forms; PCRE2 and utf8proc of Debian 12 know Unicode 14 and 15. These are the characters where that shows.",
             "#pragma once", "#include <array>", "", "namespace tessera::unicode_tables {", "",
             "// Characters newer than Unicode 14, and an older one of the same category and number of bytes.",
             "struct Newer {", "  char32_t first, last, stand_in;", "};",
             f"inline constexpr std::array<Newer, {len(letters)}> kNewer = {{{{"]
    lines += [f"    {{0x{a:X}, 0x{b:X}, 0x{value:X}}}," for a, b, value in letters]
    lines += ["}};", "", "// Characters that normal forms of Unicode 9 leave as they are.", "struct Inert {",
              "  char32_t first, last;", "};", f"inline constexpr std::array<Inert, {len(inert)}> kInert = {{{{"]
    lines += [f"    {{0x{a:X}, 0x{b:X}}}," for a, b, _ in inert]
    lines += ["}};", "", "}  // namespace tessera::unicode_tables", ""]
    path = pathlib.Path(__file__).resolve().parent.parent / "framework/tokenizer/unicode_tables.h"
    path.write_text("\n".join(lines))
    print(f"{path}: {len(letters)} and {len(inert)} ranges")


if __name__ == "__main__":
    main()
