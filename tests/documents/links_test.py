#!/usr/bin/env python3
"""links_test.py ROOT    Checks relative links and anchors in the Markdown files of the checkout ROOT.

Prints file:line for each link whose target does not exist; exits with 1 if there is one, with 77
outside a git checkout. Code spans, code blocks and links with a scheme are ignored.
"""

import pathlib
import re
import subprocess
import sys

FENCE = re.compile(r" {0,3}(```|~~~)")
LINK = re.compile(r"\]\(<?([^)>\s]+)>?[^)]*\)|^ {0,3}\[[^\]]+\]:\s+<?([^>\s]+)")
HEADING = re.compile(r" {0,3}#{1,6}\s+(.*?)\s*#*\s*$")


def text_lines(path):
    """Pairs (line number, line) outside fenced and indented code blocks."""
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced and not line.startswith(("    ", "\t")):
            yield number, line


def anchors(path):
    """Anchors that GitHub generates for the headings of a file."""
    found = set()
    for _, line in text_lines(path):
        if heading := HEADING.match(line):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            anchor, count = slug, 0
            while anchor in found:
                count += 1
                anchor = f"{slug}-{count}"
            found.add(anchor)
    return found


def problem(source, target):
    """The reason why a link in the file source is broken, or None."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", target):
        return None
    name, _, anchor = target.partition("#")
    path = source.parent / name if name else source
    if name.startswith("/"):
        return "is an absolute path"
    if not path.exists():
        return "does not exist"
    if anchor and path.suffix == ".md" and anchor not in anchors(path):
        return "has no such heading"
    return None


def main(root):
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard",
                             "--", "*.md"], cwd=root, capture_output=True, text=True)
    if listed.returncode != 0:
        print("skipped: not a git checkout")
        return 77
    links, broken = 0, 0
    for name in filter(None, listed.stdout.split("\0")):
        source = pathlib.Path(root, name)
        for number, line in text_lines(source) if source.exists() else ():
            for match in LINK.finditer(re.sub(r"`[^`]*`", "", line)):
                links += 1
                if reason := problem(source, match[1] or match[2]):
                    broken += 1
                    print(f"{name}:{number}: link {match[1] or match[2]} {reason}")
    print(f"{links} links, {broken} broken")
    return 1 if broken or not links else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
