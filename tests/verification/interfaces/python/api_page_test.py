"""API.md equals the docstrings of the installed package, and has every public name."""

import importlib.util
import pathlib
import re
import unittest

import zproof
from zproof import reference

FOLDER = pathlib.Path(__file__).resolve().parents[4] / "verification/interfaces/python"


def generator():
    spec = importlib.util.spec_from_file_location("api_page", FOLDER / "api_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class ApiPage(unittest.TestCase):
    maxDiff = None

    def test_it_is_not_stale(self):
        self.assertEqual((FOLDER / "API.md").read_text(encoding="utf-8"), generator().page(),
                         "verification/interfaces/python/api_page.py writes it again")

    def test_every_public_name_is_on_it(self):
        page = (FOLDER / "API.md").read_text(encoding="utf-8")
        headings = set(re.findall(r"^###+ (\S+)$", page, re.MULTILINE))
        functions = {name for name in (*zproof.__all__, *reference.__all__) if callable(getattr(
            zproof, name, getattr(reference, name, None))) and not name.startswith("_")} - {"ScalerState"}
        self.assertLessEqual(functions, headings)
        self.assertGreater(len(functions), 20)
        for name in ("Zproof.judge", "Zproof.assert_step_close", "Zproof.golden", "Verdict.save"):
            self.assertIn(name, headings)

    def test_every_function_says_what_it_does(self):
        page = (FOLDER / "API.md").read_text(encoding="utf-8")
        self.assertNotRegex(page, r"(?m)^```\n\n+(#|\Z)")

    def test_lists_of_docstrings(self):
        text = generator().rendered("""What it does: ``x``.

        Args:
            a, b: two of
                them.
            **words: of :func:`zproof.judge`.

        Raises:
            ValueError: no.
        """)
        self.assertEqual(text, "What it does: `x`.\n\n*Arguments*\n\n- `a, b`: two of them.\n- `**words`: of "
                               "`zproof.judge`.\n\n*Raises*\n\n- `ValueError`: no.")


if __name__ == "__main__":
    unittest.main()
