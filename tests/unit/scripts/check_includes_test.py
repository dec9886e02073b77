#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small trees with one fault each: scripts/check_includes.py must name it."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "scripts/check_includes.py"

PAGE = """
```includes
base:
ops: base
backends: ops base
train: framework
models: ops base
tools: framework models
tests: everything
```
```libraries
mpi.h: framework/train/mpi.cpp
json.hpp: *.cpp
```
"""
CMAKE = """
tessera_component(base LIBRARIES fmt)
tessera_component(ops DEPENDS base)
tessera_component(backends/cpu DEPENDS ops base LIBRARIES hwy)
tessera_component(backends/shape DEPENDS ops base)
tessera_component(train DEPENDS backends/cpu
                  ops base SOURCES train/a.cpp)
"""
GOOD = {
    "framework/base/a.h": "#include <vector>\n",
    "framework/ops/a.h": '#include "framework/base/a.h"\n',
    "framework/backends/cpu/a.h": '#include "framework/ops/a.h"\n',
    "framework/backends/shape/a.h": '#include "framework/ops/a.h"\n',
    "framework/train/a.cpp": '#include <json.hpp>\n#include "framework/backends/cpu/a.h"\n',
    "models/a.cpp": '#include "framework/ops/a.h"\n',
    "tools/a.cpp": '#include "models/a.h"\n#include "framework/train/a.h"\n',
    "models/a.h": "",
    "framework/train/a.h": "",
    "tests/a.cpp": '#include "tools/a.cpp"\n#include <mpi.h>\n',
}


class CheckIncludes(unittest.TestCase):
    def outcome(self, files=None, page=PAGE, cmake=CMAKE):
        with tempfile.TemporaryDirectory() as root:
            tree = dict(GOOD, **(files or {}))
            tree["docs/architecture.md"] = page
            tree["framework/CMakeLists.txt"] = cmake
            for path, text in tree.items():
                file = Path(root, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            result = subprocess.run([sys.executable, SCRIPT, "--root", root], capture_output=True, text=True)
            return result.returncode, result.stdout + result.stderr

    def refused(self, expected, **tree):
        code, text = self.outcome(**tree)
        self.assertEqual(code, 1, text)
        self.assertIn(expected, text)

    def test_a_good_tree_passes(self):
        code, text = self.outcome()
        self.assertEqual(code, 0, text)

    def test_upward_include(self):
        self.refused("framework/base/b.h:2: base may not include framework/ops/a.h",
                     files={"framework/base/b.h": '// first\n#  include "framework/ops/a.h"\n'})

    def test_models_do_not_see_train(self):
        self.refused("models may not include framework/train/a.h",
                     files={"models/b.cpp": '#include "framework/train/a.h"\n'})

    def test_framework_does_not_see_models(self):
        self.refused("train may not include models/a.h",
                     files={"framework/train/b.cpp": '#include "models/a.h"\n'})

    def test_backends_do_not_see_each_other(self):
        self.refused("backends/shape does not name backends/cpu",
                     files={"framework/backends/shape/b.cpp": '#include "framework/backends/cpu/a.h"\n'})

    def test_an_include_that_depends_does_not_name(self):
        self.refused("train does not name backends/shape",
                     files={"framework/train/b.cpp": '#include "framework/backends/shape/a.h"\n'})

    def test_depends_beyond_the_table(self):
        self.refused("base depends on ops",
                     cmake=CMAKE.replace("(base LIBRARIES fmt)", "(base DEPENDS ops LIBRARIES fmt)"))

    def test_a_component_without_a_row(self):
        self.refused("component optim has no row", cmake=CMAKE + "tessera_component(optim DEPENDS base)\n")

    def test_a_row_without_a_component(self):
        self.refused("row optim has no component", page=PAGE.replace("base:\n", "base:\noptim: base\n"))

    def test_library_header_elsewhere(self):
        self.refused("framework/ops/b.cpp:1: <mpi.h> may appear only in: framework/train/mpi.cpp",
                     files={"framework/ops/b.cpp": "#include <mpi.h>\n"})

    def test_heavy_library_in_a_header(self):
        self.refused("<json.hpp> may appear only in: *.cpp", files={"framework/ops/b.h": "#include <json.hpp>\n"})

    def test_two_types_of_one_name(self):
        first = {"framework/base/b.h": "namespace tessera {\nstruct Thing {\n};\n}\n"}
        self.refused("framework/ops/b.h:2: tessera::Thing is defined at framework/base/b.h:2 too",
                     files=first | {"framework/ops/b.h": "namespace tessera {\nclass Thing final : Other {\n};\n}\n"})
        for harmless in ("namespace tessera {\nstruct Thing;\n}\n", "namespace tessera::cpu {\nstruct Thing {\n};\n}\n",
                         "namespace tessera {\nnamespace {\nstruct Thing {\n};\n}  // namespace\n}\n",
                         "namespace tessera {\nstruct Case::Thing {\n};\n}\n"):
            self.assertEqual(self.outcome(files=first | {"framework/ops/b.h": harmless})[0], 0, harmless)

    def test_two_hidden_constants_of_one_name(self):
        hidden = "namespace tessera {\nnamespace {\nconstexpr int kThing = 1, kOther = 2;\n}  // namespace\n}\n"
        self.refused("framework/ops/c.cpp:3: tessera::kThing is defined at framework/ops/b.cpp:3 too",
                     files={"framework/ops/b.cpp": hidden, "framework/ops/c.cpp": hidden})
        self.assertEqual(self.outcome(files={"framework/ops/b.cpp": hidden, "framework/base/c.cpp": hidden})[0], 0)

    def test_missing_and_relative_files(self):
        self.refused("framework/ops/none.h does not exist",
                     files={"framework/ops/b.cpp": '#include "framework/ops/none.h"\n'})
        self.refused('"a.h" must be written from the root', files={"framework/ops/b.cpp": '#include "a.h"\n'})


if __name__ == "__main__":
    unittest.main()
