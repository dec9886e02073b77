#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes data/corpus.txt again: the six novels of Jane Austen from Debian's package r-cran-janeaustenr.

Not needed to build or to train; it documents where the text comes from and shows that it is unchanged.

usage: make_corpus.py [OUTPUT]     (default: data/corpus.txt; needs apt-get and dpkg-deb, on Debian 12)
"""
import gzip
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

PACKAGE = "r-cran-janeaustenr"
DATA = "usr/lib/R/site-library/janeaustenr/data/Rdata"
# In the order of publication.
NOVELS = ["sensesensibility", "prideprejudice", "mansfieldpark", "emma", "northangerabbey", "persuasion"]


class RObject:
    """Reads the few types of R's serialization (XDR form) that the package uses."""

    PAIRLIST, CHARACTER, LOGICAL, INTEGER, STRING, LIST, REFERENCE, NIL = 2, 9, 10, 13, 16, 19, 255, 254
    SYMBOL = 1

    def __init__(self, data):
        assert data[:2] == b"X\n"
        self.data, self.at, self.symbols = data, 2, []
        version, _, _ = self.integer(), self.integer(), self.integer()
        if version == 3:
            self.take(self.integer())  # the name of the encoding

    def take(self, count):
        part = self.data[self.at : self.at + count]
        self.at += count
        return part

    def integer(self):
        return struct.unpack(">i", self.take(4))[0]

    def item(self):
        """The next value and its attributes; a pairlist is a dict."""
        flags = self.integer()
        kind = flags & 255
        if kind == self.NIL:
            return {}, {}
        if kind == self.REFERENCE:
            return self.symbols[(flags >> 8) - 1], {}
        if kind == self.SYMBOL:
            self.symbols.append(self.item()[0])
            return self.symbols[-1], {}
        if kind == self.CHARACTER:
            length = self.integer()
            return (b"" if length < 0 else self.take(length)), {}
        if kind == self.PAIRLIST:
            assert not flags & 512, "a pairlist with attributes"
            tag = self.item()[0] if flags & 1024 else b""
            value = self.item()[0]
            return {tag: value, **self.item()[0]}, {}
        count = self.integer()
        if kind in (self.LOGICAL, self.INTEGER):
            value = [self.integer() for _ in range(count)]
        elif kind in (self.STRING, self.LIST):
            value = [self.item() for _ in range(count)]
        else:
            raise ValueError(f"R type {kind} is not read here")
        return value, (self.item()[0] if flags & 512 else {})


def novels(base):
    """Name and lines of each novel in a lazy-load database."""
    index, _ = RObject(gzip.decompress(pathlib.Path(f"{base}.rdx").read_bytes())).item()
    entries, attributes = index[0]
    database = pathlib.Path(f"{base}.rdb").read_bytes()
    for (name, _), (place, _) in zip(attributes[b"names"], entries):
        offset, length = place
        lines, _ = RObject(zlib.decompress(database[offset + 4 : offset + length])).item()
        yield name.decode(), [line for line, _ in lines]


def main():
    output = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "data/corpus.txt")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["apt-get", "download", "-q", PACKAGE], cwd=folder, check=True)
        subprocess.run(["dpkg-deb", "-x", next(pathlib.Path(folder).glob("*.deb")), f"{folder}/root"], check=True)
        texts = dict(novels(f"{folder}/root/{DATA}"))
    output.write_bytes(b"\n\n\n".join(b"\n".join(texts[name]) + b"\n" for name in NOVELS))
    print(f"{output}: {output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
