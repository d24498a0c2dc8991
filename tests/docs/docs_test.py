#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs_test.py BUILD [PAGE...]: what README.md, HACKING.md and docs/*.md say works. Every ```sh block is run in a scratch copy of
the project where ./carat is the built command line; every ```c and ```cpp block with a main is compiled against the built library
and run; links and named files must exist. ```sh gpu needs a GPU; ```sh no-run=REASON is not run, for the reasons below only."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LANGUAGES = {"sh", "c", "cpp", "text", "cmake", "json", "python", "cuda"}
NO_RUN = {"setup": "it installs packages or builds the whole tree", "long": "it takes minutes", "gpu-suite": "it is for the machine with the GPU"}
FOLDERS = "src|cli|kernels|tests|tools|docs|include|bench|cmake|models|data"
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```[ \t]*$", re.S | re.M)
SHIM = '#!/bin/sh\nif [ "$1" = test ]; then echo "carat: a docs block must not run the tests" >&2; exit 1; fi\nexec "{binary}" "$@"\n'
TIMEOUT = 180  # seconds a block


class Block:
    def __init__(self, page, line, info, text):
        self.page, self.line, self.text = page, line, text
        words = info.split()
        self.language, self.options = (words[0] if words else ""), words[1:]

    def __str__(self):
        return f"{self.page}:{self.line}"

    @property
    def has_main(self):
        return re.search(r"\bmain\s*\(", self.text) is not None

    def why_not(self, gpu):
        """Why the block is not run here, or None. Raises ValueError for an option that is not allowed."""
        for option in self.options:
            key, _, reason = option.partition("=")
            if key == "no-run" and reason in NO_RUN:
                return NO_RUN[reason]
            if option != "gpu" or self.language != "sh":
                raise ValueError(f"{self}: `{option}` is not an option of a code block; there are gpu and no-run={'|'.join(NO_RUN)}")
        return None if gpu or "gpu" not in self.options else "there is no GPU here"


def pages(root):
    return [path for path in [root / "README.md", root / "HACKING.md", *sorted((root / "docs").glob("**/*.md"))] if path.exists()]


def blocks(page, text):
    return [Block(page, text.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)) for match in FENCE.finditer(text)]


def slug(heading):
    """The anchor that a heading gets."""
    words = re.sub(r"[^\w\- ]", "", re.sub(r"`|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower())
    return words.replace(" ", "-")


def broken_links(root, page):
    """Sentences on links and named files of a page that lead nowhere."""
    text = page.read_text(encoding="utf-8")
    prose = FENCE.sub(lambda match: "\n" * match.group().count("\n"), text)
    name, found = page.relative_to(root).as_posix(), []
    for match in re.finditer(r"\[[^\]]*\]\(([^)\s]+)\)", prose):
        target, _, anchor = match.group(1).partition("#")
        if re.match(r"[a-z]+:", target):
            continue  # elsewhere: not ours to keep
        place = (page.parent / target) if target else page
        if not place.exists():
            found.append(f"{name}: the link to {match.group(1)} leads nowhere")
        elif anchor and anchor not in {slug(heading) for heading in re.findall(r"^#+ (.*)$", place.read_text(encoding="utf-8"), re.M)}:
            found.append(f"{name}: {target or 'the page'} has no heading for #{anchor}")
    for path in re.findall(rf"`((?:{FOLDERS})/[\w./-]*)`", prose):
        if not (root / path).exists():
            found.append(f"{name}: there is no {path}")
    return found


class Workshop:
    """A scratch copy of the project with the built command line, and the compiler flags of the built library."""

    def __init__(self, root, build, folder):
        self.place, self.build, self.include = pathlib.Path(folder, "carat"), build, root / "include"
        shutil.copytree(root, self.place, ignore=shutil.ignore_patterns("build*", ".git", ".venv", ".whl", "__pycache__"), symlinks=True)
        shim = self.place / "carat"
        shim.unlink(missing_ok=True)
        shim.write_text(SHIM.format(binary=build / "cli" / "carat"))
        shim.chmod(0o755)
        home = pathlib.Path(folder, "home")
        home.mkdir()
        library = next(build.rglob("libcarat.so"), build / "src" / "libcarat.so").parent
        self.flags = [f"-I{self.include}", f"-L{library}", "-lcarat", f"-Wl,-rpath,{library}"]
        path = os.pathsep.join([str(root / ".venv" / "bin"), str(build / "cli"), os.environ.get("PATH", "")])
        self.env = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "PATH": path, "NO_COLOR": "1"}

    def run(self, command):
        return subprocess.run(command, cwd=self.place, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=TIMEOUT)

    def shell(self, block):
        return self.run(["bash", "-euo", "pipefail", "-c", block.text])

    def compiled(self, block):
        source, program = self.place / f"block.{block.language}", self.place / "block"
        source.write_text(block.text)
        compiler = ["gcc", "-std=c99", "-pedantic"] if block.language == "c" else ["g++", "-std=c++20"]
        done = self.run([*compiler, "-Wall", "-Wextra", "-Werror", str(source), "-o", str(program), *self.flags])
        return done if done.returncode else self.run([str(program)])


class Docs(unittest.TestCase):
    root, build, chosen, maxDiff = ROOT, None, [], None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="carat-docs-")
        cls.addClassCleanup(folder.cleanup)
        cls.workshop = Workshop(cls.root, cls.build, folder.name)
        cls.pages = [page for page in pages(cls.root) if not cls.chosen or page.relative_to(cls.root).as_posix() in cls.chosen]
        cls.blocks = [block for page in cls.pages for block in blocks(page.relative_to(cls.root).as_posix(), page.read_text(encoding="utf-8"))]
        cls.gpu = pathlib.Path("/dev/nvidiactl").exists()

    def test_every_block_has_a_language(self):
        self.assertEqual([f"{block}: {block.language!r}" for block in self.blocks if block.language not in LANGUAGES], [])

    def test_links(self):
        self.assertEqual([sentence for page in self.pages for sentence in broken_links(self.root, page)], [])

    def test_shell_blocks(self):
        self.check([block for block in self.blocks if block.language == "sh"], self.workshop.shell)

    def test_programs(self):
        self.check([block for block in self.blocks if block.language in ("c", "cpp") and block.has_main], self.workshop.compiled)

    def check(self, chosen, run):
        for block in chosen:
            with self.subTest(str(block)):
                reason = block.why_not(self.gpu)
                if reason:
                    print(f"{block}: not run: {reason}", flush=True)
                    continue
                done = run(block)
                self.assertEqual(done.returncode, 0, f"{block} gave {done.returncode}:\n{block.text}---\n{done.stdout}")
                print(f"{block}: ran", flush=True)


if __name__ == "__main__":
    Docs.build, Docs.chosen = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
