#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_suite_test.py: tools/gpu_suite.sh with programs that only pretend, since the real ones need a GPU: it knows each part that it names."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

SUITE = pathlib.Path(__file__).resolve().parents[2] / "tools" / "gpu_suite.sh"
PRETEND = '#!/bin/sh\necho "{}"\n'


class GpuSuite(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        for name in ("bin/nvidia-smi", "build/cli/carat"):
            file = self.root / name
            file.parent.mkdir(parents=True)
            file.write_text(PRETEND, encoding="utf-8")
            file.chmod(0o755)

    def run_parts(self, *parts):
        environment = {**os.environ, "BUILD_DIR": str(self.root / "build"), "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"}
        return subprocess.run([SUITE, self.root / "out", *parts], env=environment, capture_output=True, text=True, timeout=60, check=False)

    def test_tune_writes_a_report_for_each_type_and_for_odd_waves(self):
        run = self.run_parts("tune")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual(sorted(file.name for file in (self.root / "out/bench").glob("*.json")), ["tune_bf16.json", "tune_f16.json", "tune_waves.json"])

    def test_every_part_that_it_names_is_there(self):
        text = SUITE.read_text(encoding="utf-8")
        parts = re.search(r'^all_parts="(.*)"$', text, re.MULTILINE)[1].split()
        self.assertIn("decode", parts)
        for part in parts:
            self.assertRegex(text, rf"(?m)^{part}\(\) \{{$")

    def test_another_part_is_refused(self):
        run = self.run_parts("decoed")
        self.assertEqual(run.returncode, 2)
        self.assertIn("there is no part 'decoed': use some of tests ", run.stderr)


if __name__ == "__main__":
    unittest.main()
