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
COVER = {2: 3, 4: 2, 5: 2, 8: 2, 9: 1, 10: 2, 11: 1}  # number of the figure in the index, where it is not the last one
LARGEST = 80_000  # bytes of text and of each figure that a repository page displays


def outputs_of(cell):
    """Text, tables and figures in their order; nothing that depends on run or machine."""
    kept = []
    for output in cell.outputs:
        if output.output_type == "stream":
            if kept and kept[-1].output_type == "stream":
                kept[-1].text += output.text
            else:
                kept.append(nbformat.v4.new_output("stream", name="stdout", text=output.text))
        elif "text/html" in output.data:
            data = {"text/plain": output.data["text/plain"], "text/html": output.data["text/html"]}
            kept.append(nbformat.v4.new_output("display_data", data=data))
        else:
            alt = output.metadata["image/png"]["alt"]
            kept.append(nbformat.v4.new_output(
                "display_data", metadata={"image/png": {"alt": alt}},
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
            elif "text/html" in output.data:
                body.append(output.data["text/html"])
            else:
                body.append(image(output))
    return document(lesson.stem, "<p><a href=index.html>All lessons</a></p>\n" + "\n".join(body))


def image(output):
    png, alt = output.data["image/png"].replace("\n", ""), html.escape(output.data["text/plain"])
    return f'<img alt="{alt}" src="data:image/png;base64,{png}">'


def document(title, body):
    style = ("body{max-width:55em;margin:1em auto;padding:0 1em;font:16px/1.5 sans-serif;color:#111;background:#fff}"
             "pre{white-space:pre-wrap;font-size:13px;line-height:1.4}"
             ".code{white-space:pre;overflow-x:auto;background:#f3f3f3;padding:.7em;font-size:12px}"
             "img{max-width:100%}td,th{padding:.15em .9em .15em 0;text-align:left;vertical-align:bottom}"
             "table{border-collapse:collapse;font-size:14px;margin:.6em 0}th{border-bottom:1px solid #999}"
             "article{display:flex;flex-wrap:wrap;gap:1em;align-items:center;border-top:1px solid #ccc;padding:1em 0}"
             "article img{width:20em}article div{flex:1 1 16em}h2{font-size:1.15em;margin:0 0 .3em}")
    return (f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
            f"<title>{html.escape(title)}</title><style>{style}</style>\n{body}</html>\n")


def index(lessons):
    """One page with the title, question and a picture of each lesson."""
    articles = []
    for lesson in lessons:
        if not lesson.with_suffix(".ipynb").exists():
            continue
        cells = nbformat.read(lesson.with_suffix(".ipynb"), 4).cells
        title = re.match(r"# (.*)", cells[0].source)[1]
        question = re.search(r"\*\*Question\.\*\* (.*?)\n\n", cells[0].source, re.S)[1].replace("\n", " ")
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        figures = [output for output in outputs if "image/png" in output.get("data", {})]
        link = f"<a href={lesson.stem}.html>"
        articles.append(f"<article>{link}{image(figures[COVER.get(int(lesson.name[:2]), 0) - 1])}</a>"
                        f"<div><h2>{link}{html.escape(title)}</a></h2>{html.escape(question)}</div></article>")
    return document("Lessons", "<h1>Sharded training, checked in bits</h1>\n"
                    "<p>Each lesson asks one question, runs the programs of the project, and checks its own claims. "
                    "Fast track: 1, 2, 5, 8, 12.</p>\n" + "\n".join(articles))


def text_of(notebook):
    """The parts that --check compares: cells and their printed text."""
    def printed(cell):
        return [output.text if output.output_type == "stream" else output.data["text/plain"]
                for output in cell.get("outputs", []) if "image/png" not in output.get("data", {})]
    return [(cell.cell_type, cell.source, printed(cell)) for cell in notebook.cells]


def main():
    arguments = argparse.ArgumentParser(
        prog="render", description="runs lessons in Jupyter and stores their outputs")
    arguments.add_argument("lessons", nargs="*", type=pathlib.Path, help="NN_name.py (default: all)")
    arguments.add_argument("--check", action="store_true", help="write nothing; 1 if a notebook would change")
    words = arguments.parse_args()
    pages = pathlib.Path(os.environ["ZP_BUILD"], "notebooks")
    pages.mkdir(parents=True, exist_ok=True)
    stale = 0
    every = sorted(HERE.glob("[0-9][0-9]_*.py"))
    for lesson in words.lessons or every:
        notebook = rendered(lesson)
        kept = lesson.with_suffix(".ipynb")
        if words.check:
            if not kept.exists() or text_of(nbformat.read(kept, 4)) != text_of(notebook):
                print(f"{kept.name} does not match {lesson.name}; run notebooks/render")
                stale = 1
            continue
        for cell in notebook.cells:
            for output in cell.get("outputs", []):
                data = output.get("data", {})
                size = (len(output.get("text", "")) + len(data.get("text/html", ""))
                        + len(data.get("image/png", "")) * 3 // 4)
                if size > LARGEST:
                    sys.exit(f"render: {lesson.name} has an output of {size} bytes, "
                             f"over the limit of {LARGEST}; shorten it")
        nbformat.write(notebook, kept)
        (pages / f"{lesson.stem}.html").write_text(page(lesson, notebook))
        print(f"{kept.name}, {lesson.stem}.html")
    page_of_all = index(every)
    if page_of_all.count("<article>") != len(every):
        sys.exit("render: the index lacks a lesson without a notebook; run notebooks/render")
    if not words.check:
        (pages / "index.html").write_text(page_of_all)
        print(f"index of all lessons: {(pages / 'index.html').resolve()}")
    return stale


if __name__ == "__main__":
    sys.exit(main())
