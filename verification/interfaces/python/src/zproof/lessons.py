"""The lessons and puzzles in this package, written into a folder of the reader."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import Any

ARCHIVE = Path(__file__).parent / "share" / "lessons.tar.xz"  # files in the places of the repository


def write_lessons(folder: str) -> Path:
    """Copies the lessons, and writes each as a notebook without outputs too.

    Args:
        folder: a folder that does not exist yet.

    Returns:
        The folder ``notebooks`` in it.

    Raises:
        ValueError: it exists or cannot be written, or this package was installed without lessons.
    """
    if not ARCHIVE.is_file():
        raise ValueError("this package has no lessons (it was installed from a build folder); use notebooks/ of the checkout")
    target = Path(folder)
    if target.exists():
        raise ValueError(f"{target} exists already (nothing is overwritten); name a new folder")
    notebooks = target / "notebooks"
    try:
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(target)
        for lesson in sorted(notebooks.glob("[0-9][0-9]_*.py")):
            lesson.with_suffix(".ipynb").write_text(notebook_of(lesson.read_text(encoding="utf-8")), encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{target} cannot be written ({error.strerror}); name a folder elsewhere") from None
    except tarfile.TarError as error:
        raise ValueError(f"{ARCHIVE} cannot be read ({error}); install the package again, with a Python that has lzma") from None
    return notebooks


def notebook_of(lesson: str) -> str:
    """A lesson, in which ``# %%`` begins a cell, as the JSON of a notebook (nbformat 4.5)."""
    cells: list[dict[str, Any]] = []
    for number, part in enumerate(re.split(r"(?m)^# %%", lesson)[1:]):
        kind, _, text = part.partition("\n")
        text = text.strip("\n")
        cell: dict[str, Any] = {"id": f"cell-{number}", "metadata": {}}
        if kind.strip() == "[markdown]":
            text = re.sub(r"(?m)^# ?", "", text)
            cell |= {"cell_type": "markdown"}
        else:
            cell |= {"cell_type": "code", "execution_count": None, "outputs": []}
        cells.append(cell | {"source": text.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps({"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"
