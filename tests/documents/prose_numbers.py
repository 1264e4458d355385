#!/usr/bin/env python3
"""prose_numbers.py [--list] ROOT    where the numbers of README.md, of the lessons and of papers/ come from.

A number of three or more digits, or with a decimal point, that stands in a sentence must be

- printed: by a console block of the page (the tests run those), by a cell of the lesson above it or next below, or by a
  console block of the section that its paragraph links to; of a decimal number three digits or more of it;
- recorded: in verification/bench/records/README.md, where its paragraph links to that;
- shown: in a formula, code span or block of code in its paragraph or next to it (in a lesson also the cell below);
- written so that it is no result (a year, a version, a citation, ...: FORMS); or
- in a row of prose_numbers.txt, DOCUMENT | PATTERN | ORIGIN: a number within a match of the regular expression PATTERN
  in a paragraph of DOCUMENT (spaces and line breaks are one space). ORIGIN is a reason, or "in FILE": a test or source
  that has the number, or a page where a console block prints it.

A row that is needed by no number is an error. --list prints each number with its origin. Exit status 1: something was
found.
"""

import collections
import decimal
import itertools
import os
import pathlib
import re
import sys

from prose_reading import place, read

NUMBER = re.compile(r"0[xX][0-9a-fA-F]+(?:\.[0-9a-fA-F]+)?(?:p[-+]?\d+)?|"
                    r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)*(?:[eE][-+]?\d+)?")
LINK = re.compile(r"\]\(([^)\s]*)\)")
BESIDE = re.compile(r"`[^`]*`|\$\$.*?\$\$|\$[^$]+\$")
CITED = r"pages?|pp\.|section|chapter|figure|table|theorem|lemma|equation|algorithm|erratum|errata|issue|lessons?"
TOOLS = r"g\+\+|clang|CMake|CUDA|NumPy|Python|Debian|License|PyTorch|torch|DeepSpeed|Open MPI|revision|version"
FORMS = {name: re.compile(pattern) for name, pattern in {
    "code span": r"`[^`]*`",
    "formula": r"\$\$.*?\$\$|\$[^$]+\$",
    "target of a link": r"\]\([^)]*\)",
    "citation": rf"[\w./-]*#\d+|arXiv:? ?\d+\.\d+|\b(?i:{CITED}) \d+(?:\.\d+)*(?:(?:, | and | to )\d+(?:\.\d+)*)*|"
                r"\(\d{4}\), \d+-\d+|\d+\(\d+\):\d+-\d+",
    "label or name": r"\[[A-Z]\w*:[^\]]*\]|\b[A-Za-z_]\w*\d[\w.]*",
    "version": rf"(?:{TOOLS}) \d+(?:\.\d+)+(?: or later \(\d+(?:\.\d+)+ tried\))?|\b\d+\.\d+\.\d+\b|"
               rf"(?:{TOOLS}) \d+ or later \(\d+(?:\.\d+)+ tried\)",
    "date or year": r"\b\d{4}-\d\d-\d\d\b|(?:[A-Z]\w*[.,]? |al\. |, |\()(?:19|20)\d\d\b(?![.,]?\d)",
    "power": r"(?<![\d.])\d+\^-?\d+|(?<![\d.,])1[eE][-+]?\d+",
}.items()}
DOCUMENTS = ("README.md", "notebooks/[0-9][0-9]_*.ipynb", "papers/*.md")


def values(text):
    """The numbers of a text, by value: 1,024 is 1024 and 0.50 is 0.5."""
    return {value(match.group()) for match in NUMBER.finditer(text)}


def value(number):
    try:
        return f"{decimal.Decimal(number.replace(',', '')).normalize():f}" if len(number) < 40 else number
    except decimal.DecimalException:  # 1.2.3, hexadecimal, an exponent beyond reason
        return number.lower()


def printed(number, among):
    """Whether a number is one of these values, or a decimal one of three digits or more is one of them, rounded."""
    if value(number) in among:
        return True
    digits = number.replace(",", "").lstrip("0.")
    if "." not in number or number.count(".") != 1 or "e" in number.lower() or len(digits.replace(".", "")) < 3:
        return False
    step = decimal.Decimal(1).scaleb(-len(number.partition(".")[2]))
    for other in among:
        if re.fullmatch(r"\d+\.\d+", other) and decimal.Decimal(other).quantize(step) == decimal.Decimal(
                number.replace(",", "")):
            return True
    return False


def counts(number):
    return "." in number or sum(digit.isdigit() for digit in number) >= 3


class Rows:
    """prose_numbers.txt, and which of its rows were needed."""

    def __init__(self, root, text):
        self.root, self.rows, self.errors, self.used = root, [], [], collections.Counter()
        for line_number, line in enumerate(text.split("\n"), 1):
            if not line.strip() or line.startswith("#"):
                continue
            parts = [part.strip() for part in line.split(" | ")]
            try:
                document, pattern, origin = parts
                assert document and pattern and origin
                self.rows.append((line_number, document, re.compile(pattern), origin))
            except (ValueError, AssertionError, re.error) as error:
                self.errors.append(f"prose_numbers.txt:{line_number}: {line!r} is no DOCUMENT | PATTERN | ORIGIN "
                                   f"({error or 'a part is empty'}); write all three")

    def origin(self, document, text, number):
        """What a row says of this match of NUMBER in a paragraph; None if none does."""
        for line, of, pattern, origin in self.rows:
            if not pathlib.PurePath(document).match(of):
                continue
            if not any(m.start() <= number.start() and number.end() <= m.end() for m in pattern.finditer(text)):
                continue
            self.used[line] += 1
            if not origin.startswith("in "):
                return "listed", origin
            if value(number.group()) in self.values_of(origin[3:], line):
                return ("produced", "printed by another page") if origin.endswith(".md") else ("in a file", origin)
        return None

    def values_of(self, name, line):
        path = self.root / name
        if not path.is_file():
            self.errors.append(f"prose_numbers.txt:{line}: there is no {name} (a number comes from it); name the file "
                               "that has it now")
            return set()
        if path.suffix == ".md":
            return set().union(*(values(piece.text) for piece in read(path) if piece.kind == "printed"))
        return values(re.sub(r"(?<=\d)'(?=\d)", "", path.read_text(encoding="utf-8")))  # 300'000

    def needless(self):
        return [f"prose_numbers.txt:{line}: {document} has no number that needs {pattern.pattern!r} (rows that nothing "
                "needs hide the next number); take the row out"
                for line, document, pattern, origin in self.rows if not self.used[line]]


def linked(root, document, text):
    """("printed" or "recorded", values) of what a paragraph links to."""
    printed, recorded = set(), set()
    for target in LINK.findall(text):
        name, _, heading = target.partition("#")
        path = pathlib.Path(os.path.normpath(root / pathlib.Path(document).parent / name)) if name else root / document
        if "://" in target or path.suffix != ".md" or not path.is_file():
            continue
        pieces = read(path)
        for piece in pieces:
            if piece.kind == "printed" and heading in ("", piece.heading):
                printed |= values(piece.text)
        if path == root / "verification/bench/records/README.md":
            recorded |= set().union(*(values(piece.text) for piece in pieces))
    return printed, recorded


def cell_below(pieces):
    """The source of the next cell of code, and the numbers that it prints."""
    code = next((i for i, piece in enumerate(pieces) if piece.kind == "shown"), None)
    if code is None:
        return "", set()
    outputs = itertools.takewhile(lambda piece: piece.kind == "printed", pieces[code + 1:])
    return pieces[code].text, set().union(*(values(piece.text) for piece in outputs))


def origins(root, document, rows):
    """(line, number, kind, detail) of every number of a document that counts; kind is None where it has no origin."""
    pieces = read(root / document)
    lesson = document.endswith(".ipynb")
    on_page = set() if lesson else set().union(*(values(p.text) for p in pieces if p.kind == "printed"))
    above, below = set(), set()
    for i, piece in enumerate(pieces):
        if piece.kind != "prose":
            above |= values(piece.text) if piece.kind == "printed" or lesson else set()
            continue
        beside = set()
        for near in pieces[max(i - 1, 0):i + 2]:
            beside |= values(near.text) if near.kind == "shown" else set()
            beside |= set().union(*map(values, BESIDE.findall(near.text))) if near.kind == "prose" else set()
        if lesson:  # a question stands above the cell that answers it
            first, below = cell_below(pieces[i:])
            beside |= values(first)
        link_printed, recorded = linked(root, document, piece.text)
        forms = [(name, match.span()) for name, form in FORMS.items() for match in form.finditer(piece.text)]
        for number in filter(lambda m: counts(m.group()), NUMBER.finditer(piece.text)):
            line = max((at for at in piece.lines if at[0] <= number.start()), default=(0, 0))[1]
            found, (begin, end) = value(number.group()), number.span()
            form = next((name for name, span in forms if span[0] <= begin and end <= span[1]), None)
            if form:
                yield line, number.group(), "form", form
            elif any(printed(number.group(), among) for among in (on_page, above, below, link_printed)):
                yield line, number.group(), "produced", "printed"
            elif found in recorded:
                yield line, number.group(), "produced", "recorded"
            elif found in beside:
                yield line, number.group(), "shown", "beside"
            else:
                yield (line, number.group(), *(rows.origin(document, piece.text, number) or (None, piece.text)))


def check(root, listed=None, documents=DOCUMENTS, say=lambda text: None):
    """Sentences about what is wrong, and how many numbers have which origin: {(folder, kind, detail): count}."""
    root = pathlib.Path(root).resolve()
    text = (root / "tests/documents/prose_numbers.txt").read_text(encoding="utf-8") if listed is None else listed
    rows, wrong, tally = Rows(root, text), [], collections.Counter()
    for pattern in documents:
        paths = sorted(root.glob(pattern))
        if not paths:
            wrong.append(f"{pattern}: no such document (nothing of it was looked at); correct DOCUMENTS")
        for path in paths:
            document = path.relative_to(root).as_posix()
            for line, number, kind, detail in origins(root, document, rows):
                if kind is None:
                    near = detail.strip()[:60]
                    wrong.append(f"{place(document, line)}: nothing shows where {number} is from (\"{near}...\"); "
                                 "print it there, or give its origin a row of prose_numbers.txt")
                tally[pattern, kind or "without origin", "" if kind is None else detail] += 1
                say(f"{place(document, line)}: {number}: {kind}: {detail}")
    return wrong + sorted(set(rows.errors)) + rows.needless(), tally


def main(arguments):
    listing = arguments[:1] == ["--list"]
    if len(arguments) != 1 + listing:
        print(__doc__.split("\n")[0], file=sys.stderr)
        return 2
    wrong, tally = check(arguments[-1], say=print if listing else lambda text: None)
    for pattern in DOCUMENTS:
        of = {key[1:]: count for key, count in tally.items() if key[0] == pattern}
        print(f"{pattern}: {sum(of.values())} numbers")
        for (kind, detail), count in sorted(of.items(), key=lambda item: (item[0][0], -item[1])):
            print(f"  {count:>5} {kind}{': ' if detail else ''}{detail}")
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
