"""The type stub of the extension module is that of the module, and everything public has a docstring and types."""

import inspect
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import zproof
from zproof import reference


class Stubs(unittest.TestCase):
    def test_the_stub_is_that_of_the_module(self):
        if subprocess.run([sys.executable, "-c", "import nanobind"], capture_output=True).returncode != 0:
            self.skipTest("nanobind is not here")
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "_zproof.pyi"
            subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-m", "zproof._zproof", "-o", str(made)], check=True,
                           capture_output=True)
            kept = Path(zproof.__file__).parent / "_zproof.pyi"
            hint = "python -m nanobind.stubgen -m zproof._zproof -o verification/interfaces/python/src/zproof/_zproof.pyi"
            self.assertEqual(made.read_text(), kept.read_text(), hint)
            self.assertTrue((kept.parent / "py.typed").exists())

    def test_everything_public_says_what_it_is(self):
        names = [getattr(zproof, name) for name in ("judge", "step", "operations", "Verdict")]
        names += [getattr(reference, name) for name in reference.__all__]
        for one in names:
            with self.subTest(one):
                self.assertTrue(inspect.getdoc(one))
                if inspect.isfunction(one):
                    signature = inspect.signature(one)
                    kinds = [p.annotation for p in signature.parameters.values()] + [signature.return_annotation]
                    self.assertNotIn(inspect.Parameter.empty, kinds)

    def test_the_version_is_that_of_the_project(self):
        source = os.environ.get("ZP_SOURCE_DIR")
        if not source:
            self.skipTest("ZP_SOURCE_DIR is not set")
        text = (Path(source) / "CMakeLists.txt").read_text()
        self.assertIn(f"project(zeroproof VERSION {zproof.__version__} ", text)


if __name__ == "__main__":
    unittest.main()
