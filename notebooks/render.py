"""Runs lessons in Jupyter; writes NN_name.ipynb and an HTML page for each. Started by ./render."""

import argparse
import html
import os
import pathlib
import re
import sys

import jupytext
import nbformat
from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from nbclient import NotebookClient

HERE = pathlib.Path(__file__).resolve().parent
LARGEST = 80_000  # bytes of text and of each figure that a repository page displays


def outputs_of(cell):
    """Text as one output, figures with description; nothing that depends on run or machine."""
    text = "".join(output.text for output in cell.outputs if output.output_type == "stream")
    kept = [nbformat.v4.new_output("stream", name="stdout", text=text)] if text else []
    for output in cell.outputs:
        if output.output_type == "stream":
            continue
        alt = output.metadata["image/png"]["alt"]
        kept.append(nbformat.v4.new_output("display_data", metadata={"image/png": {"alt": alt}},
                                           data={"image/png": output.data["image/png"].strip(), "text/plain": alt}))
    return kept


def rendered(lesson):
    """The executed notebook of a lesson; an exception in the lesson propagates."""
    notebook = jupytext.read(lesson)
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(HERE)}}).execute()
    for number, cell in enumerate(notebook.cells, 1):
        cell.id, cell.metadata = f"cell-{number}", {}
        if cell.cell_type == "code":
            cell.execution_count, cell.outputs = None, outputs_of(cell)
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return notebook


def page(lesson, notebook):
    """One HTML page: formulas as MathML, figures inline, links relative to build/notebooks."""
    markdown = MarkdownIt().enable("table")
    body = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            source = re.sub(r"\$([^$]+)\$", lambda formula: convert(formula[1]), cell.source)
            body.append(re.sub('href="(?!http|#)', 'href="../../notebooks/', markdown.render(source)))
            continue
        body.append(f"<pre class=code>{html.escape(cell.source)}</pre>")
        for output in cell.outputs:
            if output.output_type == "stream":
                body.append(f"<pre>{html.escape(output.text)}</pre>")
            else:
                png, alt = output.data["image/png"].replace("\n", ""), html.escape(output.data["text/plain"])
                body.append(f'<img alt="{alt}" src="data:image/png;base64,{png}">')
    style = ("body{max-width:52em;margin:1em auto;padding:0 1em;font:16px/1.5 sans-serif;color:#111;background:#fff}"
             "pre{overflow-x:auto;font-size:13px;line-height:1.35}.code{background:#f2f2f2;padding:.7em}"
             "img{max-width:100%}td,th{padding:.1em .8em .1em 0;text-align:left}")
    return (f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
            f"<title>{html.escape(lesson.stem)}</title><style>{style}</style>\n" + "\n".join(body) + "</html>\n")


def text_of(notebook):
    """The parts that --check compares: cells and their printed text."""
    return [(cell.cell_type, cell.source, [output.text for output in cell.get("outputs", [])
                                           if output.output_type == "stream"]) for cell in notebook.cells]


def main():
    arguments = argparse.ArgumentParser(
        prog="render", description="runs lessons in Jupyter and stores their outputs")
    arguments.add_argument("lessons", nargs="*", type=pathlib.Path, help="NN_name.py (default: all)")
    arguments.add_argument("--check", action="store_true", help="write nothing; 1 if a notebook would change")
    words = arguments.parse_args()
    pages = pathlib.Path(os.environ["ZP_BUILD"], "notebooks")
    pages.mkdir(parents=True, exist_ok=True)
    stale = 0
    for lesson in words.lessons or sorted(HERE.glob("[0-9][0-9]_*.py")):
        notebook = rendered(lesson)
        kept = lesson.with_suffix(".ipynb")
        if words.check:
            if not kept.exists() or text_of(nbformat.read(kept, 4)) != text_of(notebook):
                print(f"{kept.name} does not match {lesson.name}; run notebooks/render")
                stale = 1
            continue
        for cell in notebook.cells:
            for output in cell.get("outputs", []):
                size = len(output.get("text", "")) + len(output.get("data", {}).get("image/png", "")) * 3 // 4
                if size > LARGEST:
                    sys.exit(f"render: {lesson.name} has an output of {size} bytes, "
                             f"over the limit of {LARGEST}; shorten it")
        nbformat.write(notebook, kept)
        (pages / f"{lesson.stem}.html").write_text(page(lesson, notebook))
        print(f"{kept.name}, {lesson.stem}.html")
    return stale


if __name__ == "__main__":
    sys.exit(main())
