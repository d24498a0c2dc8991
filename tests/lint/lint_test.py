#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lint_test.py: each rule of tools/lint.py on a small tree that breaks it, and on one that does not."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import lint  # noqa: E402

HEAD = "// SPDX-License-Identifier: Apache-2.0\n// file.hpp: says what this file is for, in a line.\n"
LONG_BODY = "    work();\n" * 70


class LintTest(unittest.TestCase):
    def lint(self, files, exceptions=None, head=HEAD):
        """The breaches of a tree of {path: text after the opening comment}, as (file, line, rule)."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(head + text, encoding="utf-8")
            said = lint.Lint(folder, exceptions or {}).run()
        return [(line.split(":")[0], int(line.split(":")[1]), line.split(": ")[1]) for line in said]

    def assert_clean(self, files):
        self.assertEqual(self.lint(files), [])

    def test_a_clean_tree(self):
        self.assert_clean({"src/core/a.hpp": "#include <vector>\n#include \"core/status.hpp\"\nint f() { return 1; }\n",
                           "cli/main.cpp": "#include \"carat/carat.hpp\"\n#include \"cli/table.hpp\"\nint main() { printf(\"x\"); }\n",
                           "kernels/ptx/a.cuh": "struct A {};\n", "kernels/b.cuh": "#include \"ptx/a.cuh\"\n",
                           "kernels/ladder/c.cuh": "#include <ptx/a.cuh>\n"})

    def test_licence_and_purpose(self):
        self.assertEqual(self.lint({"src/core/a.hpp": "int x;\n"}, head=""), [("src/core/a.hpp", 1, "licence"), ("src/core/a.hpp", 1, "purpose")])
        only_licence = HEAD.splitlines()[0] + "\n"
        self.assertEqual(self.lint({"src/core/a.hpp": "#pragma once\n"}, head=only_licence), [("src/core/a.hpp", 1, "purpose")])
        # A .cpp beside its header is explained there; a Python docstring and a C comment open a file as well.
        self.assertEqual(self.lint({"src/core/a.cpp": "\n"}, head=only_licence), [("src/core/a.cpp", 1, "purpose")])
        self.assertEqual(self.lint({"src/core/a.cpp": "\n", "src/core/a.hpp": HEAD}, head=only_licence), [])
        self.assertEqual(self.lint({"a.py": '"""What this is for, in words."""\n'}, head="#!/usr/bin/env python3\n# SPDX-License-Identifier: Apache-2.0\n"), [])
        self.assertEqual(self.lint({"a.c": "\n"}, head="/* SPDX-License-Identifier: Apache-2.0\n *\n * a.c: what it is for. */\n"), [])

    def test_ascii(self):
        self.assertEqual(self.lint({"src/core/a.hpp": "// na\u00efve\n"}), [("src/core/a.hpp", 3, "ascii")])

    def test_file_length(self):
        self.assert_clean({"src/core/a.hpp": "int x;\n" * 598})
        self.assertEqual(self.lint({"src/core/a.hpp": "int x;\n" * 599}), [("src/core/a.hpp", 601, "file-length")])

    def test_function_length_cpp(self):
        for text in ("void f() {\n", "namespace a {\nstruct B {\n  template <class T = int>\n  auto f(int x = 3) const -> T {\n", "TEST(A, B) {\n",
                     "bool operator==(const A&) {\n", "namespace {\n/* { */ const char* s = \"{\"; const char c = '{';\nvoid f() {\n"):
            with self.subTest(text):
                close = "}\n" * (1 + text.count("namespace a") * 2 + text.count("namespace {"))
                breaches = self.lint({"src/core/a.hpp": text + LONG_BODY + close})
                self.assertEqual([rule for _, _, rule in breaches], ["function-length"])
        self.assert_clean({"src/core/a.hpp": "void f() {\n" + "    work();\n" * 58 + "}\n"})
        self.assert_clean({"src/core/a.hpp": "struct A {\n" + "    int x;\n" * 100 + "};\n"})
        self.assert_clean({"src/core/a.hpp": "constexpr std::array kTable = {\n" + "    f(1),\n" * 100 + "};\n"})
        self.assert_clean({"src/core/a.hpp": "void f() { a(); }\nvoid g() { a(); }\n" * 50})

    def test_function_length_elsewhere(self):
        kernel = "extern \"C\" __global__ void __launch_bounds__(256) k(int x) {\n"
        self.assert_clean({"kernels/a.cuh": kernel + "    work();\n" * 298 + "}\n"})
        self.assertEqual(self.lint({"kernels/a.cuh": kernel + "    work();\n" * 299 + "}\n"}), [("kernels/a.cuh", 3, "function-length")])
        python_head = "# SPDX-License-Identifier: Apache-2.0\n# What this file is for, in a line.\n"
        self.assertEqual(self.lint({"a.py": "def f():\n" + "    x = 1\n" * 70}, head=python_head), [("a.py", 3, "function-length")])
        self.assertEqual(self.lint({"a": "f() {\n" + "    x\n" * 70 + "}\n"}, head="#!/bin/sh\n" + python_head), [("a", 4, "function-length")])

    def test_environment(self):
        self.assertEqual(self.lint({"src/jit/a.cpp": "auto x = std::getenv(\"HOME\");\n"}), [("src/jit/a.cpp", 3, "environment")])
        self.assert_clean({"src/core/env.cpp": "auto x = std::getenv(\"HOME\");\n", "src/jit/a.cpp": "// getenv(x)\nauto s = \"getenv(x)\";\n"})

    def test_the_library_is_quiet(self):
        for text in ("std::cout << 1;", "printf(\"x\");", "std::fprintf(stderr, \"x\");", "std::abort();", "exit(1);", "fmt::print(\"x\");"):
            with self.subTest(text):
                self.assertEqual(self.lint({"src/core/a.cpp": f"void f() {{ {text} }}\n"}), [("src/core/a.cpp", 3, "quiet")])
        self.assert_clean({"src/core/a.cpp": "void f() { snprintf(b, n, \"x\"); std::fprintf(file, \"x\"); fmt::print(file, \"x\"); atexit_all(); }\n"})

    def test_include_direction(self):
        self.assertEqual(self.lint({"src/core/a.hpp": "\n#include \"dispatch/select.hpp\"\n"}), [("src/core/a.hpp", 4, "include")])
        self.assertEqual(self.lint({"src/cpu/a.hpp": "#include \"jit/jit.hpp\"\n"}), [("src/cpu/a.hpp", 3, "include")])
        self.assertEqual(self.lint({"src/dispatch/a.hpp": "#include \"api/api.hpp\"\n"}), [("src/dispatch/a.hpp", 3, "include")])
        self.assertEqual(self.lint({"cli/a.cpp": "#include \"core/dtype.hpp\"\n"}), [("cli/a.cpp", 3, "include")])
        self.assertEqual(self.lint({"kernels/a.cuh": "#include <cstdint>\n"}), [("kernels/a.cuh", 3, "include")])
        self.assertEqual(self.lint({"kernels/a.cuh": "#include \"core/dtype.hpp\"\n"}), [("kernels/a.cuh", 3, "include")])
        self.assertEqual(self.lint({"include/carat/a.h": "#include \"core/dtype.hpp\"\n"}), [("include/carat/a.h", 3, "include")])
        self.assert_clean({"src/cpu/a.hpp": "#include \"dispatch/registry.hpp\"\n#include \"core/a.hpp\"\n// #include \"api/a.hpp\"\n"})

    def test_copied_kernels(self):
        body = "".join(f"    f32 x{i} = load(p + {i} * stride);\n" for i in range(20))
        self.assertEqual(self.lint({"kernels/a_f32.cuh": body, "kernels/b_bf16.cuh": body.replace("f32", "bf16")}), [("kernels/b_bf16.cuh", 1, "copy")])
        self.assert_clean({"kernels/a.cuh": body, "kernels/b.cuh": "".join(f"    step_{i}(y{i}, z);\n" for i in range(20))})

    def test_exceptions(self):
        long_file = {"src/core/a.hpp": "int x;\n" * 700}
        self.assertEqual(self.lint(long_file, {("file-length", "src/core/a.hpp"): "generated"}), [])
        self.assertEqual(self.lint({}, {("file-length", "src/core/a.hpp"): "generated"}), [("src/core/a.hpp", 1, "exception")])

    def test_format(self):
        if not lint.shutil.which("clang-format-14"):
            self.skipTest("no clang-format-14")
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, ".clang-format").write_text("BasedOnStyle: Google\n")
            pathlib.Path(folder, "a.hpp").write_text(HEAD + "int  x;\n")
            pathlib.Path(folder, "b.hpp").write_text(HEAD + "int x;\n")
            said = lint.Lint(folder, {}).run()
        self.assertEqual(len(said), 1, said)
        self.assertTrue(said[0].startswith("a.hpp:3: format:"), said)


if __name__ == "__main__":
    unittest.main()
