"""The type stub of the extension module is that of the module, and everything public has a docstring and types."""

import ast
import inspect
import os
import unittest
from pathlib import Path

import zproof
from zproof import _zproof, reference


def _functions(node, is_class):
    """Name and parameters of every function in a module or a class of the stub."""
    functions = [one for one in node.body if isinstance(one, ast.FunctionDef)]
    return {one.name: [arg.arg for arg in one.args.args][is_class:] for one in functions}


def _signatures(owner):
    """The same of the module or the class itself."""
    functions = {name: one for name, one in vars(owner).items() if not name.startswith("_") and inspect.isroutine(one)}
    return {name: [word for word in inspect.signature(one).parameters if word != "self"] for name, one in functions.items()}


class Stubs(unittest.TestCase):
    def test_the_stub_has_the_names_and_parameters_of_the_module(self):
        kept = Path(zproof.__file__).parent / "_zproof.pyi"
        stub = ast.parse(kept.read_text())
        self.assertEqual(_functions(stub, False), _signatures(_zproof))
        classes = {node.name: _functions(node, True) for node in stub.body if isinstance(node, ast.ClassDef)}
        found = {name: _signatures(one) for name, one in vars(_zproof).items() if inspect.isclass(one)}
        for methods in classes.values():
            methods.pop("__init__", None)  # a type of C has no signature
        self.assertEqual(classes, found)
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
