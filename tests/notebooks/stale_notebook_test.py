#!/usr/bin/env python3
"""Notebooks that do not match their lesson: each difference is reported in a sentence."""

import base64
import contextlib
import copy
import io
import json
import pathlib
import tempfile
import unittest

import notebook_test

SCRIPT = """# ---
# jupyter: {}
# ---

# %% [markdown]
# # A lesson
#
# Two lines.

# %%
x = 2

print("x is", x)


# %%
print("y is", x + 1)
print("a  b")
"""
PNG = base64.b64encode(b"\x89PNG and so on").decode()
ALT = "a line that rises from left to right, slowly"
FIGURE = {"output_type": "display_data", "metadata": {"image/png": {"alt": ALT}},
          "data": {"image/png": PNG, "text/plain": "a line"}}


TABLE = {"output_type": "display_data", "metadata": {}, "data": {"text/plain": "a  b", "text/html": "<table>"}}


def stream(text):
    return {"output_type": "stream", "name": "stdout", "text": [text]}


def code(source, *outputs):
    return {"cell_type": "code", "source": source, "metadata": {}, "execution_count": None, "outputs": list(outputs)}


RIGHT = {"metadata": {"kernelspec": {}}, "nbformat": 4, "cells": [
    {"cell_type": "markdown", "source": ["# A lesson\n", "\n", "Two lines."], "metadata": {}},
    code('x = 2\n\nprint("x is", x)', stream("x is 2\n")), code('print("y is", x + 1)\nprint("a  b")', stream("y is 3\n"), FIGURE, TABLE, FIGURE, FIGURE)]}


class Stale(unittest.TestCase):
    def check(self, change=lambda notebook: None, script=SCRIPT):
        notebook = copy.deepcopy(RIGHT)
        change(notebook)
        with tempfile.TemporaryDirectory() as folder:
            lesson = pathlib.Path(folder, "01_x.py")
            lesson.write_text(script)
            return notebook_test.check(lesson, notebook)

    def test_matching_notebook(self):
        self.assertEqual(self.check(), [])

    def test_each_kind_of_difference(self):
        def put(*path, value):
            def change(notebook):
                at = notebook
                for key in path[:-1]:
                    at = at[key]
                at[path[-1]] = value
            return change

        large = b"\x89PNG" + bytes(79_999)
        last, figure = ("cells", 2), ("cells", 2, "outputs", 1)
        kinds = {
            "4 cells, expected 3": lambda notebook: notebook["cells"].append(notebook["cells"][0]),
            "cell 1: line 3 of its source": put("cells", 0, "source", 2, value="Two line."),
            "cell 2: line 1 of its source": put("cells",
                                                1,
                                                "source",
                                                value='x = 3\n\nprint("x is", x)'),
            "line 1 of its output is 'y is 4', expected 'y is 3'": put(*last,
                                                                       "outputs",
                                                                       0,
                                                                       value=stream("y is 4\n")),
            "cell 2: its output has 0 lines, expected 1": put("cells", 1, "outputs", value=[]),
            "cell 3 has execution metadata": put(*last, "execution_count", value=3),
            "cell 2 has execution metadata": put("cells", 1, "metadata", value={"execution": {}}),
            "more than the kernel's name": put("metadata", "language_info", value={}),
            "2 figures, expected 3 or more": lambda notebook: notebook["cells"][2]["outputs"].pop(),
            "line 2 of its output is 'a  c', expected 'a  b'": put("cells", 2, "outputs", 2, "data", "text/plain",
                                                                   value="a  c"),
            "described as 'a line'": put(*figure, "metadata", "image/png", "alt", value="a line"),
            "80003 bytes": put(*figure, "data", "image/png",
                               value=base64.b64encode(large).decode()),
            "figure of 14 bytes": put(*figure, "data", "text/html", value="<b>"),
        }
        for sentence, change in kinds.items():
            said = "; ".join(self.check(change))
            self.assertIn(sentence, said)
        self.assertIn(
            "cell 1: its source has 3 lines, expected 4",
            "".join(self.check(script=SCRIPT.replace("# Two lines.", "# Two lines.\n# Three."))))

    def test_paths_and_times_in_outputs(self):
        for text in ("/home/me/x", "/tmp/abc", "2026-01-02", "12:34:56", "<function f at 0x7f00aa00bb00>"):
            script = SCRIPT.replace('"x is", x', repr(text))
            notebook = copy.deepcopy(RIGHT)
            notebook["cells"][1] = code(f"x = 2\n\nprint({text!r})", stream(text + "\n"))
            said = self.check(lambda n, new=notebook: n.update(new), script)
            self.assertIn("cell 2 printed a path", "".join(said), text)

    def test_the_command(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
            lesson = pathlib.Path(folder, "01_x.py")
            lesson.write_text(SCRIPT)
            self.assertEqual(notebook_test.main(lesson), 1)
            lesson.with_suffix(".ipynb").write_text(json.dumps(RIGHT))
            self.assertEqual(notebook_test.main(lesson), 0)
        self.assertRegex(
            said.getvalue(),
            "^01_x.ipynb: the notebook does not exist; run notebooks/render 01_x.py, .*\n$")


if __name__ == "__main__":
    unittest.main()
