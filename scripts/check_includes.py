#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares three statements of who may include whom: the tables of docs/architecture.md, the DEPENDS lists
of framework/CMakeLists.txt, and the #include lines. Prints each difference as FILE:LINE: and exits with 1.

  - An include line must be allowed by the table row of its folder, and by the DEPENDS of its component, so
    that folders side by side (two backends, two transports) stay apart.
  - DEPENDS names nothing that the table does not allow.
  - A library's header appears only where the second table lets it.
  - Project includes are written from the root, and the file exists.
  - A type that other sources can see has a name of its own: of two with one name the linker takes either.
  - A type or constant that a source hides has a name that no other source of its folder uses: a first build
    compiles a folder's sources as one.
"""
import argparse
import re
import sys
from pathlib import Path

SOURCES = ("framework", "models", "tools", "tests")
NAMESPACE = re.compile(r"namespace (\S+) \{")
TYPE = re.compile(r"(?:class|struct|enum class|union) (?:\[\[\w+\]\] )?(\w+)\b(?!::)[^;]*$")  # with its body
CONSTANT = re.compile(r"\b(k[A-Z]\w*)(?:\[\w*\])*\s*[={]")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^">]+)[">]')


def read_block(text, name):
    """The rows `key: words` of the fenced block ```name in architecture.md."""
    match = re.search(rf"^```{name}\n(.*?)^```", text, re.M | re.S)
    if not match:
        sys.exit(f"error: docs/architecture.md has no block ```{name}")
    rows = {}
    for line in match.group(1).splitlines():
        key, colon, words = line.partition(":")
        if not colon or key.strip() in rows:
            sys.exit(f"error: docs/architecture.md: not a row of ```{name}: {line!r}")
        rows[key.strip()] = words.split()
    return rows


def inside(path, folder):
    return path == folder or path.startswith(folder + "/")


class Table:
    """Which folder of framework/ may include which; a row for models, tools and tests as well."""

    def __init__(self, rows):
        self.rows = rows
        self.framework = [name for name in rows if name not in ("models", "tools", "tests")]

    def row_of(self, folder):
        return next((name for name in self.rows if inside(folder, name)), None)

    def allows(self, row, target):
        """`target` is a folder of framework/ ("comm/mpi"), or models, tools, tests."""
        if inside(target, row):
            return True
        for word in self.rows[row]:
            if word == "everything" or inside(target, word):
                return True
            if word == "framework" and self.row_of(target) in self.framework:
                return True
        return False


def read_components(cmake_text):
    """tessera_component(name DEPENDS a b ...) as {name: [a, b]}."""
    components = {}
    for body in re.findall(r"^\s*tessera_component\(([^)]*)\)", cmake_text, re.M):
        words = body.split()
        depends, taking = [], False
        for word in words[1:]:
            if word in ("DEPENDS", "LIBRARIES", "SOURCES"):
                taking = word == "DEPENDS"
            elif taking:
                depends.append(word)
        components[words[0]] = depends
    return components


def folder_of(path):
    """Where a project file stands: "comm/mpi" inside framework/, else its top folder."""
    parts = path.split("/")
    if parts[0] != "framework":
        return parts[0]
    return "/".join(parts[1:-1])


class Checker:
    def __init__(self, root):
        self.root = root
        text = (root / "docs/architecture.md").read_text()
        self.table = Table(read_block(text, "includes"))
        self.libraries = read_block(text, "libraries")
        self.components = read_components((root / "framework/CMakeLists.txt").read_text())
        self.problems = []
        self.lines = 0
        self.named = {}  # folder (of what is hidden) and name: where it is defined

    def problem(self, place, text):
        self.problems.append(f"{place}: {text}")

    def component_of(self, folder):
        fitting = [name for name in self.components if inside(folder, name)]
        return max(fitting, key=len) if fitting else None

    def check_cmake(self):
        for name, depends in self.components.items():
            row = self.table.row_of(name)
            if row is None:
                self.problem("framework/CMakeLists.txt", f"component {name} has no row in the include table")
                continue
            for target in depends:
                if target not in self.components:
                    self.problem("framework/CMakeLists.txt", f"{name} depends on {target}, which is no component")
                elif not self.table.allows(row, target):
                    self.problem("framework/CMakeLists.txt", f"{name} depends on {target}; the row is "
                                 f"'{row}: {' '.join(self.table.rows[row])}'")
        for name in self.table.framework:
            if not any(inside(component, name) for component in self.components):
                self.problem("docs/architecture.md", f"row {name} has no component in framework/CMakeLists.txt")

    def check_project_include(self, place, folder, header):
        if not (self.root / header).is_file():
            self.problem(place, f"{header} does not exist; includes are written from the root")
            return
        row, target = self.table.row_of(folder), folder_of(header)
        if row is None:
            self.problem(place, f"folder {folder} has no row in the include table")
            return
        if not self.table.allows(row, target):
            self.problem(place, f"{row} may not include {header}; its row is "
                         f"'{row}: {' '.join(self.table.rows[row])}'")
            return
        component, needed = self.component_of(folder), self.component_of(target)
        if component is None or needed is None or needed == component:
            return
        if needed not in self.components[component]:
            self.problem(place, f"includes {header}, and {component} does not name {needed} in its DEPENDS")

    def check_library_include(self, place, path, header):
        for prefix, places in self.libraries.items():
            if not header.startswith(prefix) or path.startswith("tests/"):
                continue
            if not any(path.startswith(word) or (word == "*.cpp" and path.endswith(".cpp")) for word in places):
                self.problem(place, f"<{header}> may appear only in: {' '.join(places)}")

    def check_file(self, file):
        path = file.relative_to(self.root).as_posix()
        for number, line in enumerate(file.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            self.lines += 1
            place, (quote, header) = f"{path}:{number}", match.groups()
            top = header.split("/")[0]
            if quote == '"' and top in SOURCES:
                self.check_project_include(place, folder_of(path), header)
            elif quote == '"' and "/" not in header:
                self.problem(place, f'"{header}" must be written from the root')
            else:
                self.check_library_include(place, path, header)

    def check_names(self, file):
        """Formatted sources have types of a namespace at the first column."""
        path = file.relative_to(self.root).as_posix()
        namespace, hidden = "", False
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if line.startswith("namespace {") or line.rstrip() == "}  // namespace":
                hidden = line.startswith("namespace")
            elif match := NAMESPACE.match(line):
                namespace = match.group(1)
            elif not hidden and path.startswith("tests/"):
                continue  # of a program of its own
            else:
                names = TYPE.match(line).groups() if TYPE.match(line) else ()
                if hidden and line.startswith("const"):
                    names = CONSTANT.findall(line)
                for name in (f"{namespace}::{name}" for name in names):
                    key = (file.parent if hidden else None, name)
                    if key in self.named:
                        self.problem(f"{path}:{number}", f"{name} is defined at {self.named[key]} too")
                    self.named.setdefault(key, f"{path}:{number}")

    def run(self):
        self.check_cmake()
        for top in SOURCES:
            for file in sorted((self.root / top).rglob("*")):
                if file.suffix in (".h", ".cpp", ".cu") and file.is_file():
                    self.check_file(file)
                    self.check_names(file)
        return self.problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    options = parser.parse_args()
    checker = Checker(options.root.resolve())
    problems = checker.run()
    for problem in problems:
        print(problem)
    if problems or checker.lines == 0:
        print(f"{len(problems)} problems in {checker.lines} include lines")
        return 1
    print(f"{checker.lines} include lines keep the table of docs/architecture.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
