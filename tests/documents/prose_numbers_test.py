#!/usr/bin/env python3
"""prose_numbers.py on a small checkout: what is right is left alone, and one offender of each kind is found."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

import prose_numbers

README = """# Front page

The program has 1,234 parts, 56 of them round, and takes 0.50 of the time
of May 2017, with g++ 12.2 and fp8; 99.4 % of [the ranks](more/page.md#how-fast) agree.

```console
$ build/zeroproof count
parts 1234  share 0.5  precise 77.1249  odd 0.4621
```

About 77.12 of them, on rank 7.

On a device 144 cases ([records](verification/bench/records/README.md)).
"""
PAGE = "# Page\n\n```console\n$ a\n11.5\n```\n\n## How fast\n\n```console\n$ b\n99.4\n```\n"
NOTE = """# A note

A. Author, *Title*, Journal 45 (1989), 503-528, arXiv 1412.6980; owner/name#12345, section 2.1, R123, [Key:x100].

The bound $3.16 x$ is 3.16, 2^352 is larger, and 1e-12 smaller. Of 20,000 cases 4096 were seen.

    t = 8192

That is 8192, as `x = 640` says for 640.
"""
ROWS = """# DOCUMENT | PATTERN | ORIGIN
papers/a.md | Of 20,000 cases | in tests/a_test.cpp
a.md | cases 4096 | a count of the paper
"""


def code(source, output):
    return {"cell_type": "code", "source": source, "outputs": [{"output_type": "stream", "text": [output]}]}


def prose(text):
    return {"cell_type": "markdown", "source": text}


CELLS = [prose("# 1. A lesson\n\nWith a rate of 0.25, how many of 5,061 differ?"),
         code("rate = 0.25", "5,061 differ\n"),
         prose("So 5,061 differ, at 0.25.")]


class Numbers(unittest.TestCase):
    def found(self, readme=README, cells=None, note=NOTE, rows=ROWS):
        with tempfile.TemporaryDirectory() as folder:
            files = {"README.md": readme, "more/page.md": PAGE, "papers/a.md": note,
                     "verification/bench/records/README.md": "| stages | 144 cases |\n",
                     "notebooks/01_x.ipynb": json.dumps({"cells": cells or CELLS}),
                     "tests/a_test.cpp": "for (int i = 0; i < 20'000; ++i) {}",
                     "tests/documents/prose_numbers.txt": rows}
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
                status = prose_numbers.main([folder])
            self.assertEqual(status, 1 if err.getvalue() else 0)
            return out.getvalue(), err.getvalue().splitlines()

    def one(self, *words, **changes):
        wrong = self.found(**changes)[1]
        self.assertEqual(len(wrong), 1, wrong)
        for word in words:
            self.assertIn(word, wrong[0])

    def test_what_is_right(self):
        out, wrong = self.found()
        self.assertEqual(wrong, [])
        for line in ("README.md: 7 numbers\n", "    4 produced: printed", "1 produced: recorded",
                     "1 form: date or year",
                     "1 in a file: in tests/a_test.cpp", "1 listed: a count of the paper", "6 form: citation",
                     "2 form: power", "2 form: label or name", "1 form: version", "3 shown: beside"):
            self.assertIn(line, out)

    def test_a_number_nobody_made(self):
        self.one("README.md:3:", "1,235", readme=README.replace("1,234", "1,235"))
        self.one("README.md:11:", "77.13", readme=README.replace("77.12 of", "77.13 of"))
        self.one("README.md:3:", "0.46", readme=README.replace("0.50", "0.46"))  # rounded to two digits: too many fit

    def test_the_section_a_paragraph_links_to(self):
        self.one("11.5", readme=README.replace("99.4 %", "11.5 %"))  # another section prints it
        self.one("144", readme=README.replace("](verification/bench/records/README.md)", ""))
        self.one("99.4", readme=README.replace("](more/page.md#how-fast)", ""))

    def test_a_block_that_is_not_run_prints_nothing(self):
        wrong = self.found(readme=README.replace("```console", "<!-- not run: no time -->\n```console"))[1]
        self.assertEqual(len(wrong), 1, wrong)  # what it shows still explains the paragraphs beside it, unrounded
        self.assertIn("77.12", wrong[0])

    def test_a_stale_output(self):
        stale = [CELLS[0], code("rate = 0.25", "5,062 differ\n"), CELLS[2]]
        wrong = self.found(cells=stale)[1]
        self.assertEqual(len(wrong), 2, wrong)
        self.assertIn("notebooks/01_x.ipynb, cell 1, line 3: nothing shows where 5,061", wrong[0])
        self.assertIn("notebooks/01_x.ipynb, cell 3, line 1: nothing shows where 5,061", wrong[1])

    def test_an_output_far_below(self):
        later = [prose("There are 5,061."), code("pass", ""), code("print()", "5,061 differ\n")]
        self.one("cell 1, line 1", "5,061", cells=later)

    def test_a_note_without_origin(self):
        self.one("papers/a.md:11:", "4097", note=NOTE + "\nThe 4097.\n")
        self.one("papers/a.md:5:", "3.17", note=NOTE.replace("is 3.16", "is 3.17"))
        self.one("2.75", note=NOTE.replace("section 2.1", "by 2.75"))

    def test_rows(self):
        self.one("prose_numbers.txt:4: a.md has no number that needs 'nothing'", rows=ROWS + "a.md | nothing | why\n")
        self.one("prose_numbers.txt:4: README.md has no number", rows=ROWS + "README.md | 1,234 | a reason\n")
        self.one("prose_numbers.txt:4:", "no DOCUMENT | PATTERN | ORIGIN", rows=ROWS + "a.md | 4096\n")
        self.one("prose_numbers.txt:4:", "no DOCUMENT | PATTERN | ORIGIN", rows=ROWS + "a.md | (4096 | why\n")
        part = self.found(rows=ROWS.replace("cases 4096", "cases 40"))[1]  # it covers the number only in part
        self.assertIn("nothing shows where 4096", part[0])
        gone = self.found(rows=ROWS.replace("a_test.cpp", "b_test.cpp"))[1]
        self.assertIn("there is no tests/b_test.cpp", " ".join(gone))
        self.assertIn("nothing shows where 20,000", gone[0])
        self.one("nothing shows where 20,001", note=NOTE.replace("20,000", "20,001"),
                 rows=ROWS.replace("20,000", "20,001"))  # the file has another number

    def test_documents_that_are_gone(self):
        with tempfile.TemporaryDirectory() as folder:
            wrong, _ = prose_numbers.check(folder, listed="")
        self.assertEqual(len(wrong), 3)
        self.assertIn("no such document", wrong[0])


if __name__ == "__main__":
    unittest.main()
