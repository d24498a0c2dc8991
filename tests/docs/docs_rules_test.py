#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs_rules_test.py: the docs test itself: on a small project whose pages are right, and on pages that are wrong."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import docs_test  # noqa: E402

GOOD = """# Title

See [there](docs/a.md#two-words-here) and `src/x.cpp`, and [us](#title).

```sh
./carat hello > said.txt
test "$(cat said.txt)" = hello
```

```sh no-run=setup
exit 1
```

```c
int main(void) { return 0; }
```

```cpp
fragment, not a program
```
"""


class Rules(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in {"README.md": GOOD, "docs/a.md": "## Two `words` here\n", "src/x.cpp": "", "include/carat.h": "",
                           "build/cli/carat": '#!/bin/sh\necho "$@"\n'}.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        (self.root / "build/cli/carat").chmod(0o755)
        (self.root / "build/src").mkdir()
        subprocess.run(["gcc", "-shared", "-x", "c", "/dev/null", "-o", self.root / "build/src/libcarat.so"], check=True)

    def failures(self, readme):
        """The names of the tests that fail with that README."""
        (self.root / "README.md").write_text(readme)
        case = type("Case", (docs_test.Docs,), {"root": self.root, "build": self.root / "build"})
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
        return sorted({docs_test.re.search(r"\.(test_\w+)", test.id()).group(1) for test, _ in result.failures + result.errors})

    def test_a_good_page(self):
        self.assertEqual(self.failures(GOOD), [])
        self.assertFalse((self.root / "said.txt").exists(), "blocks run in a scratch copy")

    def test_wrong_pages(self):
        for readme, want in [("```sh\nfalse\ntrue\n```\n", "test_shell_blocks"), ("```sh\nfalse | true\n```\n", "test_shell_blocks"),
                             ("```sh\n./carat test\n```\n", "test_shell_blocks"), ("```sh no-run=because\ntrue\n```\n", "test_shell_blocks"),
                             ("```sh maybe\ntrue\n```\n", "test_shell_blocks"), ("```c\nint main(void) { return 3; }\n```\n", "test_programs"),
                             ("```cpp\nint main() { return x; }\n```\n", "test_programs"), ("```bash\ntrue\n```\n", "test_every_block_has_a_language"),
                             ("```\ntrue\n```\n", "test_every_block_has_a_language"), ("[a](docs/b.md)\n", "test_links"),
                             ("[a](docs/a.md#three)\n", "test_links"), ("`src/y.cpp`\n", "test_links")]:
            with self.subTest(readme):
                self.assertEqual(self.failures(readme), [want])

    def test_a_gpu_block_waits_for_a_gpu(self):
        block = docs_test.Block("a.md", 1, "sh gpu", "false")
        self.assertIn("no GPU", block.why_not(False))
        self.assertIsNone(block.why_not(True))


if __name__ == "__main__":
    unittest.main()
