"""Documents taken apart for prose_numbers.py: paragraphs of prose, what programs printed, and what is shown beside.

A Markdown page is one run of pieces; a notebook is the pieces of its cells, with outputs in the place where they stand.
"""

import json
import pathlib
import re
from typing import NamedTuple


class Piece(NamedTuple):
    kind: str  # "prose", "printed" (by a program that the tests run) or "shown" (code, formulas)
    text: str
    lines: list  # of prose: (offset, line), where each line of the file begins in text
    heading: str = ""  # the heading above, as the anchor of a link names it


def anchor(heading):
    """What a link calls a heading: "### How fast" is #how-fast."""
    return re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower()).replace(" ", "-")


def paragraph(lines, heading):
    """Lines of prose as one text with single spaces, so that a pattern need not know where lines break."""
    text, starts = "", []
    for number, line in lines:
        starts.append((len(text), number))
        text += " ".join(line.split()) + " "
    return Piece("prose", text, starts, heading)


def markdown(text, first=1):
    """The pieces of a Markdown text whose first line has this number."""
    pieces, prose, block, heading = [], [], None, ""
    kind, before, indented = "", "", False

    def close():
        if prose:
            pieces.append(paragraph(prose, heading))
            prose.clear()

    for number, line in enumerate(text.split("\n"), first):
        if block is not None:
            if line.startswith("```"):
                pieces.append(Piece(kind, "\n".join(block), [], heading))
                block = None
            else:
                block.append(line)
        elif line.startswith("```"):
            close()
            block = []
            run = line[3:] in ("console", "sh") and not before.startswith("<!-- not run:")
            kind = "printed" if run else "shown"
        elif line.startswith("    ") and line.strip() and (indented or not before.strip()):
            close()
            indented = True
            pieces.append(Piece("shown", line, [], heading))
        elif not line.strip() or re.fullmatch(r"<!--.*-->", line):
            close()
        elif line.startswith("#"):
            close()
            heading = anchor(line)
            pieces.append(paragraph([(number, line)], heading))
        else:
            indented = False
            if re.match(r"\||\s*(?:-|\d+\.) ", line):  # a row of a table, an item of a list
                close()
            prose.append((number, line))
        before = line
    if block is not None:
        raise ValueError(f"line {number}: a block of code is not closed")
    close()
    return pieces


def joined(text):
    return text if isinstance(text, str) else "".join(text)


def notebook(text):
    """The pieces of a notebook; line numbers of its prose count within the cell, 1,000 for each cell before it."""
    pieces = []
    for index, cell in enumerate(json.loads(text)["cells"]):
        source = joined(cell["source"])
        if cell["cell_type"] == "markdown":
            pieces += markdown(source, 1000 * (index + 1) + 1)
            continue
        pieces.append(Piece("shown", source, []))
        for output in cell["outputs"]:
            alt = output.get("metadata", {}).get("image/png", {}).get("alt", "")
            said = joined(output.get("text", "")) or joined(output.get("data", {}).get("text/plain", ""))
            pieces.append(Piece("printed", said, []))
            if alt:  # a description is prose of the lesson, and no program computed it
                pieces.append(paragraph([(1000 * (index + 1) + 1, alt)], ""))
    return pieces


def read(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    return notebook(text) if path.suffix == ".ipynb" else markdown(text)


def place(path, line):
    return f"{path}:{line}" if line < 1000 else f"{path}, cell {line // 1000}, line {line % 1000}"
