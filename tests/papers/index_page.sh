#!/bin/sh
# index_page.sh SOURCE_DIR            writes papers/index.md: every label of the notes, and the files that cite it
# index_page.sh SOURCE_DIR --check    ends with 1 if the page is not what the sources say
# Files, not lines: a line number is stale after the next edit above it, and the label finds the line.
set -eu
cd -- "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

sources() { # folder...: the files that may cite a label
  find "$@" \( -name '*.[ch]' -o -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh' \) -type f | LC_ALL=C sort
}

{
  cat <<'HEAD'
# Index of labels

Where the equations of the notes are: in the reference where it computes them, else in the contract, in code of other
folders, or in tests. `zeroproof explain LABEL` prints one. This page is written by
`sh tests/papers/index_page.sh .` and held to the sources by the test `papers/index`.

| label | note | cited by |
|---|---|---|
HEAD
  for note in papers/*.md; do
    [ "$note" = papers/index.md ] || sed -n "s|^\*\*\(\[[A-Z][A-Za-z0-9]*:[a-z][a-z0-9_]*\]\)\*\*.*|\1 $note|p" "$note"
  done >"$work/labels"
  { sources reference; sources common; sources cuda verification; sources tests; } >"$work/files"
  awk '
    function folder(file) { return file ~ /^reference/ ? 1 : file ~ /^common/ ? 2 : file ~ /^tests/ ? 4 : 3 }
    NR == FNR { label[++labels] = $1; note[$1] = $2; next }
    {
      while ((getline line < $0) > 0) {
        while (match(line, /\[[A-Z][A-Za-z0-9]*:[a-z][a-z0-9_]*\]/)) {
          name = substr(line, RSTART, RLENGTH)
          line = substr(line, RSTART + RLENGTH)
          if (!(name in note) || (name, $0) in seen || (name in best && best[name] < folder($0))) continue
          seen[name, $0] = 1
          best[name] = folder($0)
          short = $0; sub(/^.*\//, "", short)
          cited[name] = cited[name] (cited[name] == "" ? "" : ", ") "[" short "](../" $0 ")"
        }
      }
      close($0)
    }
    END {
      for (i = 1; i <= labels; ++i) {
        page = note[label[i]]; sub(/^papers\//, "", page)
        print "| " label[i] " | [" page "](" page ") | " (cited[label[i]] == "" ? "background" : cited[label[i]]) " |"
      }
    }' "$work/labels" "$work/files"
} >"$work/index.md"

if [ "${2:-}" = --check ]; then
  diff -u papers/index.md "$work/index.md" || {
    echo "papers/index.md is not what the sources say (a label or a citation came or went); sh tests/papers/index_page.sh . writes it" >&2
    exit 1
  }
else
  cp "$work/index.md" papers/index.md
fi
