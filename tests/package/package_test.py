#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""package_test.py BUILD: installs the built tree into a temporary prefix, moves the prefix, and uses it as a stranger would:
by pkg-config from C99, by find_package from C++20, and by running the installed command line."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
CONSUMER = HERE / "consumer"
BUILD = None  # set by main
# What libcarat.so and the command line may need: the C and C++ run times. Everything else is opened at run time.
ALLOWED = re.compile(r"(linux-vdso|libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux[-\w]*|libcarat)\.so")
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror"]


def run(*command, **kwargs):
    """Runs it to the end; a failure shows the command and all that it said."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, **kwargs)
    if done.returncode != 0:
        raise AssertionError(f"{command} gave {done.returncode}:\n{done.stdout}")
    return done.stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = pathlib.Path(tempfile.mkdtemp(prefix="carat package "))
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        run("cmake", "--install", BUILD, "--prefix", cls.scratch / "first")
        cls.prefix = cls.scratch / "moved here"
        (cls.scratch / "first").rename(cls.prefix)
        cls.lib = next(cls.prefix.glob("lib*/**/libcarat.so")).parent
        cls.env = {key: value for key, value in os.environ.items() if key not in ("LD_LIBRARY_PATH", "CARAT_BACKEND")}
        if shutil.which("ninja"):
            cls.env["CMAKE_GENERATOR"] = "Ninja"  # make need not be there

    def test_the_prefix_holds_what_it_should(self):
        found = {path.relative_to(self.prefix).name for path in self.prefix.rglob("*") if not path.is_dir()}
        for name in ("carat.h", "carat.hpp", "libcarat.so", "libcarat.so.0", "caratConfig.cmake", "caratConfigVersion.cmake",
                     "caratTargets.cmake", "carat.pc", "LICENSE", "THIRD_PARTY_NOTICES.md", "carat"):
            self.assertIn(name, found)

    def test_nothing_installed_names_the_build_tree(self):
        for path in [*self.prefix.rglob("*.cmake"), *self.prefix.rglob("*.pc")]:
            self.assertNotIn(str(BUILD), path.read_text(), path)
            self.assertNotIn(str(self.scratch / "first"), path.read_text(), path)
        for path in (self.lib / "libcarat.so", self.prefix / "bin" / "carat"):
            dynamic = run("readelf", "-d", path)
            self.assertNotIn(str(BUILD), dynamic)

    def test_c99_by_pkg_config(self):
        env = {**self.env, "PKG_CONFIG_PATH": str(self.lib / "pkgconfig")}
        # pkg-config escapes the blanks of the prefix for a shell, so a shell it is.
        run("sh", "-c", f"eval gcc -std=c99 {' '.join(STRICT)} -o consumer_c '\"$1\"' $(pkg-config --cflags --libs carat)", "sh",
            CONSUMER / "consumer.c", cwd=self.scratch, env=env)
        said = run(self.scratch / "consumer_c", env={**self.env, "LD_LIBRARY_PATH": str(self.lib)})
        version = run("pkg-config", "--modversion", "carat", env=env).strip()
        self.assertIn(f"carat {version}: 58 64 139 154", said)

    def configure_consumer(self, *options):
        run("cmake", "-S", CONSUMER, "-B", self.scratch / "consumer", f"-DCMAKE_PREFIX_PATH={self.prefix}", *options, env=self.env)

    def test_cpp20_by_find_package(self):
        self.configure_consumer()
        run("cmake", "--build", self.scratch / "consumer", env=self.env)
        said = run(self.scratch / "consumer" / "consumer", env=self.env)
        self.assertIn("0 wrong, refused 1, said 1", said)

    def test_another_major_version_is_refused(self):
        source = self.scratch / "too_new"
        source.mkdir()
        (source / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES NONE)\n"
                                               "find_package(carat 99 CONFIG REQUIRED)\n")
        with self.assertRaisesRegex(AssertionError, "99"):
            run("cmake", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", env=self.env)

    def test_headers_stand_alone(self):
        include = self.prefix / "include"
        for compiler, standard, name in [("gcc", "c99", "carat.h"), ("gcc", "c11", "carat.h"), ("g++", "c++11", "carat.h"),
                                         ("g++", "c++20", "carat.h"), ("g++", "c++20", "carat.hpp")]:
            source = self.scratch / f"alone.{'c' if compiler == 'gcc' else 'cpp'}"
            source.write_text(f"#include <carat/{name}>\n#include <carat/{name}>\ntypedef int iso_c_wants_a_declaration;\n")
            run(compiler, f"-std={standard}", *STRICT, "-fsyntax-only", f"-I{include}", source)

    def test_exports_only_the_abi(self):
        header = (self.prefix / "include" / "carat" / "carat.h").read_text()
        declared = set(re.findall(r"CARAT_API [\w\s*]*?\b(carat_\w+)\(", header))
        exported = set()
        for line in run("nm", "-D", "--defined-only", "--with-symbol-versions", self.lib / "libcarat.so").splitlines():
            kind, symbol = line.split()[-2:]
            if kind == "A" and symbol.split("@")[0] == "CARAT_0":
                continue  # the version's own name
            self.assertRegex(symbol, r"^carat_\w+@@CARAT_0$")
            exported.add(symbol.split("@")[0])
        self.assertEqual(exported, declared, "libcarat.so must export what carat.h declares, and no more")

    def test_soname_is_the_major_version(self):
        self.assertRegex(run("readelf", "-d", self.lib / "libcarat.so"), r"SONAME.*\[libcarat\.so\.0\]")

    def test_needs_no_library_but_the_run_time(self):
        for path in (self.lib / "libcarat.so", self.prefix / "bin" / "carat"):
            needed = [line.split()[0] for line in run("ldd", path, env=self.env).splitlines() if ".so" in line]
            strange = [name for name in needed if not ALLOWED.match(pathlib.Path(name).name)]
            self.assertEqual(strange, [], path)

    def test_the_pack_moves_with_the_prefix(self):
        if not (BUILD / "lib" / "carat" / "sm_90a.pack").exists():
            self.skipTest("built without the kernel pack")
        report = json.loads(run(self.prefix / "bin" / "carat", "doctor", "--json", env={**self.env, "CARAT_CUDA_PATH": "/no/libcuda.so"}))
        self.assertEqual([pack["path"] for pack in report["packs"]], [str(self.lib / "carat" / "sm_90a.pack")])

    def test_the_command_line_runs_from_the_moved_prefix(self):
        version = run(self.prefix / "bin" / "carat", "--version", env=self.env)
        self.assertIn("0.1.0", version)


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
