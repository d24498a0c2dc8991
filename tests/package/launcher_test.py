#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""launcher_test.py: ./carat in a small project of its own, with stand-ins for the package tools in front of the real ones. Nothing
is installed and nothing is downloaded."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAKES = {
    "dpkg-query": 'sed "s/$/ installed/" "$STATE/installed"\n',
    "apt-cache": 'for name in "${@:2}"; do echo "$name:"; test -e "$STATE/no-lists" || echo "  Candidate: 1"; done\n',
    "apt-get": 'echo "$*" >>"$STATE/apt"\ntest ! -e "$STATE/offline" || { echo "E: no network" >&2; exit 100; }\n'
               'case " $* " in *" update "*) rm -f "$STATE/no-lists" ;; *" install "*) printf "%s\\n" "$@" >>"$STATE/installed" ;; esac\n',
    "sleep": 'echo "$*" >>"$STATE/slept"\n',
    "id": "echo ${FAKE_UID:-0}\n",
    "sudo": 'echo "$*" >>"$STATE/sudo"\nwhile case $1 in -*) true ;; *) false ;; esac; do shift; done\n"$@"\n',
}
PROJECT = {
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.25)\nproject(carat LANGUAGES CXX)\noption(CARAT_TESTS \"\" ON)\nadd_subdirectory(cli)\n"
                      "if(CARAT_TESTS)\n  enable_testing()\n  add_test(NAME good COMMAND true)\n  add_test(NAME bad COMMAND false)\nendif()\n",
    "cli/CMakeLists.txt": "add_executable(carat_cli main.cpp)\nset_target_properties(carat_cli PROPERTIES OUTPUT_NAME carat)\n",
    "cli/main.cpp": "#include <cstdio>\nint main(int n, char** v) {\n    for (int i = 1; i < n; ++i) std::printf(\"[%s]\", v[i]);\n    return n == 4 ? 4 : 0;\n}\n",
    ".venv/bin/python": '#!/bin/sh\ncase "$*" in *"pip install"*) echo "pip: no network" >&2; exit 1 ;; esac\n',
    "tools/requirements-test.txt": "numpy\n",
    ".venv/installed-test.txt": "numpy\n",
}


class Launcher(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="carat launcher ")
        self.addCleanup(folder.cleanup)
        self.place = pathlib.Path(folder.name)
        self.project, self.bin = self.place / "pro ject", self.place / "bin"
        for name, text in PROJECT.items():
            self.write(self.project / name, text)
        for name, text in FAKES.items():
            self.write(self.bin / name, "#!/bin/bash\n" + text)
        shutil.copy(ROOT / "carat", self.project)
        shutil.copy(ROOT / "tools" / "packages.txt", self.project / "tools")
        self.packages = [line.split()[:2] for line in (ROOT / "tools" / "packages.txt").read_text().splitlines() if not line.startswith("#")]
        self.write(self.place / "installed", "".join(f"{name}\n" for _, name in self.packages))
        self.env = {"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.place), "STATE": str(self.place), "CARAT_NVRTC_PATH": "/dev/null",
                    "CCACHE_DISABLE": "1"}

    @staticmethod
    def write(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def said(self, name):
        path = self.place / name
        return path.read_text() if path.exists() else ""

    def carat(self, *words, cwd="/", project=None, **env):
        done = subprocess.run([(project or self.project) / "carat", *words], cwd=cwd, env={**self.env, **env}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr

    def without(self, *names):
        """Takes packages away."""
        self.write(self.place / "installed", "".join(line + "\n" for line in self.said("installed").split() if line not in names))

    def test_builds_once_and_passes_words_and_exit_codes_on(self):
        code, out, err = self.carat("doctor", "a b")
        self.assertEqual((code, out), (0, "[doctor][a b]"), err)
        self.assertIn("configuring build/", err)
        start = time.monotonic()
        self.assertEqual(self.carat("run", "x", ""), (4, "[run][x][]", ""), "quiet when nothing is to be built")
        self.assertLess(time.monotonic() - start, 5)
        self.assertEqual(self.said("apt"), "")

    def test_builds_again_what_is_stale(self):
        self.carat("doctor")
        source = self.project / "cli" / "main.cpp"
        source.write_text(source.read_text().replace("[%s]", "<%s>"))
        code, out, err = self.carat("doctor")
        self.assertEqual((code, out), (0, "<doctor>"))
        self.assertIn("Building", err)
        source.write_text("int main( {")
        code, out, err = self.carat("doctor")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("main.cpp:1", err)
        self.assertIn("carat: the build failed", err)

    def test_a_moved_tree_is_built_again(self):
        self.carat("doctor")
        moved = self.place / "elsewhere"
        self.project.rename(moved)
        link = self.place / "link"
        link.symlink_to(moved / "carat")
        done = subprocess.run([link, "doctor"], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout), (0, "[doctor]"), done.stderr)
        self.assertIn("made for another place", done.stderr)

    def test_a_copied_tree_without_the_packages_runs_as_it_is(self):
        self.carat("doctor")
        self.without("libcli11-dev")
        moved = self.place / "copied"
        self.project.rename(moved)
        code, out, err = self.carat("doctor", project=moved)
        self.assertEqual((code, out), (0, "[doctor]"), err)
        self.assertIn("runs as it is", err)
        self.assertEqual(self.said("apt"), "")

    def test_a_failed_configuration_is_said_and_tried_again(self):
        lists = self.project / "CMakeLists.txt"
        text = lists.read_text()
        lists.write_text(text + "message(FATAL_ERROR \"no such thing\")\n")
        code, _, err = self.carat("doctor")
        self.assertEqual(code, 1)
        self.assertIn("no such thing", err)
        lists.write_text(text)
        self.assertEqual(self.carat("doctor")[:2], (0, "[doctor]"))

    def test_demo_installs_what_is_missing_and_only_that(self):
        self.without("libfmt-dev", "ninja-build", "libgtest-dev")
        code, out, err = self.carat("demo", "--x", cwd=self.place)
        self.assertEqual((code, out), (0, "[demo][--x]"), err)
        self.assertIn("carat: installing 2 Debian packages (for: build): libfmt-dev ninja-build\n", err)
        self.assertEqual(self.said("apt").count("\n"), 1, "no update when apt's lists know the packages")
        self.assertIn("install -y --no-install-recommends libfmt-dev ninja-build\n", self.said("apt"))
        self.assertEqual(self.said("sudo"), "")

    def test_package_lists_are_updated_where_there_are_none(self):
        self.without("libfmt-dev")
        self.write(self.place / "no-lists", "")
        self.assertEqual(self.carat("demo")[0], 0)
        self.assertEqual([line.split()[-1] for line in self.said("apt").splitlines()], ["update", "libfmt-dev"])

    def test_offline_is_one_sentence(self):
        self.without("libfmt-dev")
        self.write(self.place / "offline", "")
        code, out, err = self.carat("demo")
        self.assertEqual((code, out), (1, ""))
        self.assertTrue(err.splitlines()[-1].startswith("carat: apt-get could not install libfmt-dev: "), err)
        self.assertEqual(self.said("slept"), "5\n5\n", "update and install are each tried once more")
        self.assertFalse((self.project / "build").exists())

    def test_root_is_asked_for_only_when_needed(self):
        self.assertEqual(self.carat("demo", FAKE_UID="1000")[0], 0)
        self.assertEqual(self.said("sudo"), "")
        self.without("libfmt-dev")
        self.assertEqual(self.carat("demo", FAKE_UID="1000")[0], 0)
        self.assertIn("-n env DEBIAN_FRONTEND=noninteractive apt-get", self.said("sudo"), "never a password prompt without a terminal")

    def test_test_runs_everything_and_fails_with_it(self):
        code, out, err = self.carat("test")
        self.assertNotEqual(code, 0)
        self.assertIn("50% tests passed, 1 tests failed out of 2", out, err)
        code, out, err = self.carat("test", "-R", "good")
        self.assertEqual(code, 0, err)
        self.assertIn("100% tests passed, 0 tests failed out of 1", out)
        self.assertNotEqual(self.carat("test", "-R", "nothing")[0], 0, "no test is a failure")

    def test_test_turns_on_the_tests_of_a_tree_that_demo_built(self):
        self.without("libgtest-dev")
        self.assertEqual(self.carat("demo")[0], 0)
        self.assertFalse((self.project / "build" / "CTestTestfile.cmake").exists())
        self.assertIn("100% tests passed", self.carat("test", "-R", "good")[1])
        self.assertIn("libgtest-dev", self.said("installed"))

    def test_pip_that_cannot_is_one_sentence(self):
        (self.project / "tools" / "requirements-test.txt").write_text("numpy\nother\n")
        code, _, err = self.carat("test")
        self.assertEqual(code, 1)
        self.assertIn("carat: installing numpy other into .venv/ (from PyPI)", err)
        self.assertTrue(err.splitlines()[-1].startswith("carat: pip could not install tools/requirements-test.txt: "), err)
        self.assertEqual(self.said("slept"), "5\n")

    def test_help_builds_nothing(self):
        for words in ((), ("--help",), ("help",)):
            code, out, _ = self.carat(*words)
            self.assertEqual(code, 0)
            self.assertIn("./carat demo", out)
        self.assertFalse((self.project / "build").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
