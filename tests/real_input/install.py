#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""install.py VENV REQUIREMENTS...: makes VENV where it is missing, and installs the listed packages, and nothing that they
depend on, into it. What is installed already costs no network."""
import pathlib
import subprocess
import sys
import time
import venv


def main():
    home, files = pathlib.Path(sys.argv[1]), sys.argv[2:]
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]
    for file in files:
        command += ["-r", file]
    for attempt in (1, 2):
        if subprocess.run(command).returncode == 0:
            return 0
        if attempt == 1:
            time.sleep(5)
    print(f"install.py: pip could not install {' '.join(files)} into {home}: check the network, or install them there "
          "yourself (--no-deps) and run the tests again", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
