#!/usr/bin/env python3
"""notebook_test.py LESSON.py: compares cells and printed text of its notebook, without Jupyter."""

import base64
import contextlib
import io
import json
import os
import pathlib
import re
import sys

LARGEST = 80_000
FIGURES = 3  # at least
NEVER = re.compile(r"/(home|root|tmp|work|usr)/|\b20\d\d-\d\d-\d\d\b|\b\d\d:\d\d:\d\d\b|0x[0-9a-f]{12}>")


def cells_of(text):
    """Kind and source of each cell of a script in the percent format."""
    kept = []
    for part in re.split(r"^# %%", text, flags=re.M)[1:]:
        first, _, body = part.partition("\n")
        body = body.strip("\n")
        if first.strip() == "[markdown]":
            kept.append(("markdown", "\n".join(re.sub(r"^# ?", "", line) for line in body.splitlines())))
        else:
            kept.append(("code", body))
    return kept


def difference(kind, mine, theirs):
    for number, (a, b) in enumerate(zip(mine.splitlines(), theirs.splitlines()), 1):
        if a != b:
            return f"line {number} of its {kind} is '{b}', expected '{a}'"
    return f"its {kind} has {len(theirs.splitlines())} lines, expected {len(mine.splitlines())}"


def printed(outputs):
    """Text and tables of a cell as a script prints them."""
    return "".join("".join(output["text"]) if output["output_type"] == "stream"
                   else "".join(output["data"]["text/plain"]) + "\n"
                   for output in outputs if "image/png" not in output.get("data", {}))


def check(lesson, notebook):
    """Differences of the notebook, as sentences."""
    wrong, figures, names = [], 0, {"__name__": "__main__"}
    cells = cells_of(lesson.read_text())
    if len(cells) != len(notebook["cells"]):
        return [f"it has {len(notebook['cells'])} cells, expected {len(cells)}"]
    if set(notebook["metadata"]) != {"kernelspec"} or notebook["nbformat"] != 4:
        wrong.append("its metadata is more than the kernel's name")
    for number, ((kind, source), cell) in enumerate(zip(cells, notebook["cells"]), 1):
        kept = "".join(cell["source"])
        if cell["cell_type"] != kind or kept != source:
            wrong.append(f"cell {number}: {difference('source', source, kept)}")
            return wrong
        if kind == "markdown":
            continue
        if cell["metadata"] or cell["execution_count"] is not None:
            wrong.append(f"cell {number} has execution metadata")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(source, f"cell {number}", "exec"), names)
        text = printed(cell["outputs"])
        if text != said.getvalue():
            wrong.append(f"cell {number}: {difference('output', said.getvalue(), text)}")
        if NEVER.search(text) or len(text) > LARGEST:
            wrong.append(f"cell {number} printed a path, a time or more than {LARGEST} bytes")
        for output in cell["outputs"]:
            if output["output_type"] == "stream" or set(output["data"]) == {"text/plain", "text/html"}:
                continue
            figures += 1
            png = base64.b64decode("".join(output["data"]["image/png"]))
            alt = output["metadata"]["image/png"]["alt"]
            if len(png) > LARGEST or png[:4] != b"\x89PNG" or len(alt) < 40 or set(output["data"]) != {
                    "image/png", "text/plain"}:
                wrong.append(f"cell {number} has a figure of {len(png)} bytes, described as '{alt}'")
    if figures < FIGURES:
        wrong.append(f"it has {figures} figures, expected {FIGURES} or more")
    return wrong


def main(lesson):
    kept = lesson.with_suffix(".ipynb")
    sys.path.insert(0, str(lesson.parent))
    os.chdir(lesson.parent)
    wrong = ["the notebook does not exist"]
    if kept.exists():
        wrong = check(lesson, json.loads(kept.read_text()))
    for sentence in wrong:
        print(f"{kept.name}: {sentence}; run notebooks/render {lesson.name}, and check the changes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
