#!/usr/bin/env python3
"""Writes API.md from the docstrings of the package zproof, which has to be importable.

api_page.py            writes verification/interfaces/python/API.md
api_page.py --check    ends with 1 if it does not match the docstrings
"""

import importlib
import inspect
import pathlib
import re
import sys
import textwrap

PAGE = pathlib.Path(__file__).resolve().parent / "API.md"
WIDTH = 120
SECTIONS = {"Args": "Arguments", "Returns": "Returns", "Raises": "Raises", "Attributes": "Attributes",
            "Options": "Options"}
# heading, module, and the names it has there in this order; None: those of its __all__
PARTS = [
    ("Judging", "zproof.judge", None),
    ("zproof.torch", "zproof.torch", None),
    ("Trainings", "zproof.run_judge", None),
    ("Asserting", "zproof.testing", None),
    ("Steps", "zproof.step", None),
    ("zproof.reference", "zproof.reference", None),
    ("pytest", "zproof.pytest_plugin", ["Zproof", "ZproofRun"]),
]


def plain(text):
    """reStructuredText of docstrings as Markdown."""
    text = re.sub(r":(?:func|class|meth|attr|mod):`~?([^`]*)`", r"`\1`", text)
    return text.replace("``", "`")


def wrapped(text, first="", rest=""):
    return textwrap.fill(" ".join(plain(text).split()), WIDTH, initial_indent=first, subsequent_indent=rest,
                         break_long_words=False, break_on_hyphens=False)


def items_of(lines):
    """The entries of a section: (name, text), or ("", text) where it is a sentence."""
    items = []
    for line in textwrap.dedent("\n".join(lines)).splitlines():
        start = re.match(r"([\w*., -]+): +(\S.*)", line)
        if start and not line.startswith(" "):
            items.append([start.group(1), start.group(2)])
        elif items:
            items[-1][1] += " " + line.strip()
        elif line.strip():
            items.append(["", line.strip()])
    return items


def rendered(doc):
    """A docstring: paragraphs, and its sections as lists."""
    out, paragraph, section, code = [], [], None, []

    def end_paragraph():
        if paragraph:
            out.append(wrapped(" ".join(paragraph)))
            paragraph.clear()

    def end_section():
        nonlocal section
        if section is not None:
            name, lines = section
            out.append(f"*{SECTIONS[name]}*\n\n" + "\n".join(
                wrapped(f"`{item}`: {text}" if item else text, "- ", "  ") for item, text in items_of(lines)))
            section = None

    def end_code():
        if code:
            out.append("```python\n" + textwrap.dedent("\n".join(code)).strip() + "\n```")
            code.clear()

    for line in inspect.cleandoc(doc).splitlines():
        heading = re.fullmatch(r"(\w+):", line)
        if heading and heading.group(1) in SECTIONS:
            end_paragraph(), end_section(), end_code()
            section = (heading.group(1), [])
        elif section is not None and (line.startswith(" ") or not line):
            section[1].append(line)
        elif line.startswith("    "):
            end_paragraph()
            code.append(line)
        elif not line:
            end_paragraph()
            if code:
                code.append("")
        else:
            end_section(), end_code()
            paragraph.append(line)
    end_paragraph(), end_section(), end_code()
    return "\n\n".join(out)


def shown_type(annotation):
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def signature(name, value, method):
    """name(parameter: type = default, ...) -> type, wrapped between parameters."""
    shown = inspect.signature(value)
    parts, keywords = [], False
    for one in list(shown.parameters.values())[1 if method else 0:]:
        if one.kind is one.KEYWORD_ONLY and not keywords:
            parts.append("*")
            keywords = True
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        kind = "" if one.annotation is one.empty else f": {shown_type(one.annotation)}"
        default = "" if one.default is one.empty else f" = {one.default!r}" if kind else f"={one.default!r}"
        parts.append(stars + one.name + kind + default)
    returned = "" if shown.return_annotation is shown.empty else f" -> {shown_type(shown.return_annotation)}"
    if len(text := f"{name}({', '.join(parts)}){returned}") <= 100:
        return text
    lines = [""]
    for part in parts:
        if len(lines[-1]) + len(part) > 96:
            lines.append("")
        lines[-1] += ("  " * 2 if not lines[-1] else " ") + part + ","
    return f"{name}(\n" + "\n".join(lines) + f"\n){returned}"


def entry(name, value, level, method=False):
    heading = f"{'#' * level} {name}"
    if isinstance(value, property):
        return f"{heading}\n\n{rendered(value.__doc__ or '')}"
    if inspect.isclass(value):
        parts = [f"{heading}\n\n{rendered(value.__doc__ or '')}"]
        for own, member in vars(value).items():
            public = not own.startswith("_") and (isinstance(member, property) or inspect.isfunction(member))
            if public and member.__doc__:
                parts.append(entry(f"{name}.{own}", member, level + 1, method=True))
        return "\n\n".join(parts)
    call = signature(name, value, method)
    return f"{heading}\n\n```python\n{call}\n```\n\n{rendered(value.__doc__ or '')}"


def page():
    package = importlib.import_module("zproof")
    parts = ["# The package zproof\n\nMade by `verification/interfaces/python/api_page.py` from the docstrings; a test holds it "
             "to them.", rendered(package.__doc__)]
    for heading, name, names in PARTS:
        importlib.import_module(name)
        module = sys.modules[name]  # zproof.judge is also a function
        parts.append(f"## {heading}\n\n{rendered(module.__doc__)}")
        for own in names or module.__all__:
            value = getattr(module, own)
            if callable(value) and not (inspect.isclass(value) and issubclass(value, dict)):
                parts.append(entry(own, value, 3))
    return "\n\n".join(parts) + "\n"


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit("api_page.py takes nothing or --check (it writes one page); see its first lines")
    text = page()
    if sys.argv[1:]:
        if PAGE.read_text(encoding="utf-8") != text:
            print("API.md does not match the docstrings (the page is out of date); run "
                  "verification/interfaces/python/api_page.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
