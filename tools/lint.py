#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lint.py [ROOT]: the rules of HACKING.md that a program can check. Prints `FILE:LINE: RULE: sentence` for each breach and
exits with 1 if there is one. A justified breach is a line of EXCEPTIONS; one that is no longer needed is a breach itself."""
import ast
import difflib
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys

# (rule, file) -> why. Keep it short.
EXCEPTIONS = {}

MAX_FILE, MAX_FUNCTION, MAX_KERNEL_FUNCTION, MAX_SIMILARITY = 600, 60, 300, 0.6
C_LIKE = {".c", ".h", ".hpp", ".cpp", ".inl", ".cuh", ".cu"}
COMMENTED = C_LIKE | {".py", ".sh", ".cmake", ".in", ".map"}
SKIPPED = {".git", ".venv", ".whl", "__pycache__"}

# Which folders of src/ a folder may include: dependencies point one way.
BELOW = {
    "core": set(),
    "limits": {"core"},
    "cpu": {"core", "limits"},
    "jit": {"core", "limits"},
    "cuda": {"core", "limits", "jit"},
    "check": {"core", "limits", "cpu"},
    "dispatch": {"core", "limits", "cpu", "jit", "cuda", "check"},
    "api": {"core", "limits", "cpu", "jit", "cuda", "check", "dispatch"},
}
# Plain declarations through which a backend speaks with the registry above it.
PORTS = {"dispatch/registry.hpp", "dispatch/config.hpp"}
# Header-only helpers of src/ that the command line shares.
CLI_PORTS = {"core/status.hpp", "core/format.hpp"}
# The one reader of the environment in the library; in the command line, NO_COLOR and the like, and where a peer lies.
READS_ENVIRONMENT = {"src/core/env.cpp", "cli/common.cpp", "cli/peers/process.cpp"}

FORBIDDEN_IN_SRC = {
    "prints": r"\bstd::(cout|cerr|clog)\b|\b(printf|puts|putchar|perror)\s*\(|\bfprintf\s*\(\s*stdout|\bfprintf\s*\(\s*stderr"
              r"|\bfputs\s*\([^;]*\b(stdout|stderr)\b|\bfmt::print\s*\(\s*(\"|stdout|stderr)",
    "ends the process": r"\b(abort|exit|_exit|_Exit|quick_exit|terminate)\s*\(",
}


class Lint:
    def __init__(self, root, exceptions=None):
        self.root = pathlib.Path(root).resolve()
        self.exceptions = EXCEPTIONS if exceptions is None else exceptions
        self.breaches = []
        self.used = set()

    def breach(self, path, line, rule, sentence):
        name = path.relative_to(self.root).as_posix()
        if (rule, name) in self.exceptions:
            self.used.add((rule, name))
        else:
            self.breaches.append(f"{name}:{line}: {rule}: {sentence}")

    def files(self):
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(f for f in folders if f not in SKIPPED and not f.startswith("build"))
            for name in sorted(names):
                path = pathlib.Path(folder, name)
                if is_source(path) and not path.is_symlink():
                    yield path

    def run(self):
        kernels, formatted = [], []
        for path in self.files():
            try:
                text = path.read_bytes().decode("ascii")
            except UnicodeDecodeError as error:
                self.breach(path, path.read_bytes()[:error.start].count(b"\n") + 1, "ascii", "a byte that is not ASCII; write it out")
                continue
            self.check_opening(path, text)
            self.check_length(path, text)
            self.check_functions(path, text)
            if path.suffix in C_LIKE:
                formatted.append(path)
                self.check_code(path, text)
                if path.suffix == ".cuh":
                    kernels.append(path)
        self.check_copies(kernels)
        self.check_format(formatted)
        for rule, name in sorted(set(self.exceptions) - self.used):
            self.breaches.append(f"{name}:1: exception: the exception from `{rule}` in tools/lint.py is not needed; remove it")
        return self.breaches

    def check_opening(self, path, text):
        head = text.splitlines()[:3]
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in head):
            self.breach(path, 1, "licence", "the first lines must hold `SPDX-License-Identifier: Apache-2.0`")
        # A .cpp is explained by the header of its name, and CMakeLists.txt by its folder's rules.
        explained = path.suffix == ".cpp" and path.with_suffix(".hpp").exists() or path.name == "CMakeLists.txt" or path.suffix == ".map"
        if not explained and len(opening_comment(text)) < 20:
            self.breach(path, 1, "purpose", "the file must open with a comment that says what it is for")

    def check_length(self, path, text):
        lines = text.count("\n")
        if lines > MAX_FILE:
            self.breach(path, lines, "file-length", f"{lines} lines, at most {MAX_FILE}: split it by subject")

    def check_functions(self, path, text):
        in_kernels = path.relative_to(self.root).parts[0] == "kernels"
        limit = MAX_KERNEL_FUNCTION if in_kernels else MAX_FUNCTION
        for name, line, length in functions(path, text):
            if length > limit:
                self.breach(path, line, "function-length", f"{name} has {length} lines, at most {limit}: split it")

    def check_code(self, path, text):
        parts = path.relative_to(self.root).parts
        code = strip_comments(text)
        no_strings = strip_comments(text, strings=True)
        if parts[0] in ("src", "cli", "include") and "/".join(parts) not in READS_ENVIRONMENT:
            self.forbid(path, no_strings, "environment", r"\b(secure_)?getenv\s*\(|\benviron\b", "the environment is read in src/core/env.cpp only")
        if parts[0] == "src":
            for what, pattern in FORBIDDEN_IN_SRC.items():
                self.forbid(path, no_strings, "quiet", pattern, f"the library never {what}: return a Status")
        for line, opener, name in includes(code):
            self.check_include(path, parts, line, opener, name)

    def forbid(self, path, code, rule, pattern, sentence):
        for match in re.finditer(pattern, code):
            self.breach(path, code.count("\n", 0, match.start()) + 1, rule, f"`{match.group().strip()}`: {sentence}")

    def check_include(self, path, parts, line, opener, name):
        folder = name.split("/")[0]
        inside = (path.parent / name).exists()
        if parts[0] == "kernels":
            if not ((self.root / "kernels" / name).exists() or opener == '"' and inside):
                self.breach(path, line, "include", f"{name}: device code includes files of kernels/ only")
        elif parts[0] == "cli":
            inside = inside or (self.root / "cli" / name).exists() or name in CLI_PORTS
            if opener == '"' and not inside and folder not in ("cli", "carat"):
                self.breach(path, line, "include", f"{name}: the command line uses the public API (carat/...) only")
        elif parts[0] == "src" and opener == '"' and folder in BELOW and len(parts) > 2:
            if folder != parts[1] and folder not in BELOW.get(parts[1], BELOW) and name not in PORTS:
                allowed = ", ".join(sorted(BELOW.get(parts[1], ()))) or "nothing"
                self.breach(path, line, "include", f"{name}: {parts[1]} may include {allowed}")
        elif parts[0] == "include" and opener == '"' and folder != "carat":
            self.breach(path, line, "include", f"{name}: public headers include public headers only")

    def check_copies(self, kernels):
        bodies = {path: normalised(path.read_text()) for path in kernels}
        for one, two in itertools.combinations([path for path in kernels if len(bodies[path]) >= 15], 2):
            matcher = difflib.SequenceMatcher(None, bodies[one], bodies[two], autojunk=False)
            if matcher.real_quick_ratio() > MAX_SIMILARITY and matcher.quick_ratio() > MAX_SIMILARITY and matcher.ratio() > MAX_SIMILARITY:
                self.breach(two, 1, "copy", f"{matcher.ratio():.0%} the same as {one.name}: make the difference a template parameter")

    def check_format(self, paths):
        tool = shutil.which("clang-format-14")
        if not tool or not paths or not (self.root / ".clang-format").exists():
            return
        done = subprocess.run([tool, "--dry-run", "--style=file", *map(str, paths)], capture_output=True, text=True)
        first = {}
        for match in re.finditer(r"^(/.*?):(\d+):\d+: warning", done.stderr, re.M):
            first.setdefault(match.group(1), int(match.group(2)))
        for name, line in first.items():
            self.breach(pathlib.Path(name), line, "format", "run clang-format-14 -i on it")


def is_source(path):
    if path.suffix in COMMENTED or path.name == "CMakeLists.txt" or path.match("tools/requirements-*.txt"):
        return True
    if path.suffix or path.name == "LICENSE":
        return False
    with path.open("rb") as file:  # a script without a suffix
        return file.read(2) == b"#!"


def opening_comment(text):
    """The words of the comment or docstring at the top, without the licence line."""
    words = []
    for line in text.splitlines():
        if line.startswith("#!") or "SPDX-License-Identifier" in line:
            continue
        if not words and line.lstrip().startswith(('"""', "'''")):
            return line
        if not re.match(r"\s*(//|/?\*|#(?!\s*(include|pragma|ifndef|define|if)\b))", line):
            break
        words.append(line.strip().lstrip("/*# "))
    return " ".join(words).strip()


def strip_comments(text, strings=False):
    """C++ without comments (and, if asked, without the insides of strings); lines keep their numbers."""
    def blank(match):
        whole = match.group()
        if whole.startswith(("//", "/*")):
            return re.sub(r"[^\n]", " ", whole)
        return '""' + "\n" * whole.count("\n") if strings else whole
    return re.sub(r'//[^\n]*|/\*.*?\*/|\bR"([^()\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', blank, text, flags=re.S)


def includes(code):
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', code, re.M):
        yield code.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)


def normalised(text):
    """Lines of code with the element types taken out: what is left the same in two kernels was copied."""
    code = re.sub(r"\b(half2?|float[24]?|double|__half2?|nv_bfloat16|b?f\d+|e[45]m[23]|[su]\d+|tf32|u?int\d*(_t)?)\b", "T", strip_comments(text))
    lines = (re.sub(r"\s+", " ", line).strip() for line in code.splitlines())
    return [line for line in lines if len(line) > 1 and not line.startswith(("#", "namespace"))]


def functions(path, text):
    """(name, first line, lines) of each function."""
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node.name, node.lineno, node.end_lineno - node.lineno + 1
    elif path.suffix in C_LIKE:
        yield from cpp_functions(strip_comments(text, strings=True))
    elif text.startswith("#!") and "sh" in text.splitlines()[0]:
        for match in re.finditer(r"^(\w+)\(\) \{.*?^\}", text, re.M | re.S):
            yield match.group(1), text.count("\n", 0, match.start()) + 1, match.group().count("\n") + 1


def cpp_functions(code):
    """A brace whose statement has a parameter list and stands in a namespace or class opens a function."""
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group().count("\n"), code, flags=re.M)  # no preprocessor
    stack, start = [], 0  # stack: None for a namespace or class, (name, line) for a function, "other"
    for match in re.finditer(r"[{};]", code):
        where, what = match.start(), match.group()
        if what == "{":
            statement = code[start:where]
            stack.append(scope(statement, stack, code.count("\n", 0, where - len(statement.lstrip())) + 1))
        elif what == "}" and stack:
            closed = stack.pop()
            if isinstance(closed, tuple):
                yield closed[0], closed[1], code.count("\n", 0, where) + 2 - closed[1]
        if what != ";" or not any(entry is not None for entry in stack):
            start = where + 1


def scope(statement, stack, line):
    if any(entry is not None for entry in stack):
        return "other"
    bare = re.sub(r"\b(?:__attribute__|alignas|__launch_bounds__|__cluster_dims__|requires)\s*\((?:[^()]|\([^()]*\))*\)", "", statement)
    while (shorter := re.sub(r"\([^()]*\)|<[^<>]*>", lambda m: "@" if m.group()[0] == "(" else "", bare)) != bare:
        bare = shorter
    bare = re.sub(r"\boperator\s*[^\s\w@]+", "operator", bare)
    if "@" in bare and not re.search(r"(?<![=!<>])=(?!=)", bare):
        name = re.search(r"([\w~:]+)\s*@", bare)
        return (name.group(1) if name else "a function", line)
    if re.search(r"\b(namespace|class|struct|union|extern)\b", bare):
        return None
    return "other"


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    breaches = Lint(root).run()
    print("\n".join(breaches) if breaches else "lint: nothing to say")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
