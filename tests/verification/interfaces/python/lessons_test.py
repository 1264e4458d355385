"""The lessons of the installed package: complete, and as notebooks with the cells of the rendered ones."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from zproof.lessons import notebook_of, write_lessons

LESSONS = sorted((Path(os.environ["ZP_SOURCE_DIR"]) / "notebooks").glob("[0-9][0-9]_*.py"))


def lessons_command(folder, cwd):
    return subprocess.run([sys.executable, "-m", "zproof", "lessons", folder], cwd=cwd, capture_output=True, text=True)


class LessonsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def test_notebook_has_the_cells_of_the_rendered_one(self):
        def cells(text):
            return [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
        self.assertEqual(len(LESSONS), 13)
        for lesson in LESSONS:
            made = cells(notebook_of(lesson.read_text()))
            self.assertGreater(len(made), 10)
            self.assertEqual(made, cells(lesson.with_suffix(".ipynb").read_text()), lesson.name)

    def test_command_writes_every_lesson_and_puzzle(self):
        done = lessons_command("out", self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        notebooks = self.folder / "out/notebooks"
        for lesson in LESSONS:
            self.assertEqual((notebooks / lesson.name).read_bytes(), lesson.read_bytes())
            self.assertEqual(json.loads((notebooks / lesson.name).with_suffix(".ipynb").read_text())["nbformat"], 4)
        sources = [path for path in (self.folder / "out").rglob("*") if path.suffix in (".hpp", ".cpp")]
        included = {name for path in sources for name in re.findall('#include "(common/.*?)"', path.read_text())}
        self.assertIn("common/layout/flat_layout.hpp", included)
        self.assertEqual([], [name for name in included if not (self.folder / "out" / name).is_file()])
        for words in (["list", "mine"], ["start", "adamw", "mine"]):  # start shows a passage of the contract
            (self.folder / "mine").mkdir(exist_ok=True)
            shown = subprocess.run([sys.executable, notebooks / "puzzle", *words], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertIn("adamw", shown.stdout)

    def test_unusable_folder_is_one_sentence(self):
        (self.folder / "there").mkdir()
        for folder, problem in (("there", "there exists already"), ("/proc/none", "/proc/none cannot be written")):
            done = lessons_command(folder, self.folder)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(problem, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_package_without_lessons_refuses(self):
        (self.folder / "damaged").write_text("no archive")
        for archive, problem in (("none", "this package has no lessons"), ("damaged", "damaged cannot be read")):
            with unittest.mock.patch("zproof.lessons.ARCHIVE", self.folder / archive), \
                    self.assertRaisesRegex(ValueError, problem):
                write_lessons(str(self.folder / "out"))


if __name__ == "__main__":
    unittest.main()
