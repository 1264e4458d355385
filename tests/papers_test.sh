#!/bin/sh
# papers_test.sh SOURCE_DIR     every citation resolves, both ways, and every relative link of a Markdown file exists
# papers_test.sh --self-test    plants one offender of each kind and expects to see it reported
# Rules and syntax: papers/README.md. Prints file:line of each offender; exits 1 if there is one.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# Every text file of the tree, without build trees and hidden folders.
tree_files() {
  find . \( -name '.?*' -o -type d \( -name 'build*' -o -name zeroproof-failures \) \) -prune -o -type f \( -name '*.md' -o -name '*.[ch]' \
    -o -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.sh' -o -name '*.cmake' -o -name '*.toml' \
    -o -name CMakeLists.txt \) -print | sed 's|^\./||' | sort
}

# Prints what is wrong with the citations of the files that are listed on stdin.
citations='
BEGIN { label = "\\[[A-Z][A-Za-z0-9]*:[a-z][a-z0-9_]*\\]" }
{
  file = $0; in_papers = file ~ /^papers\//; is_note = in_papers && file ~ /\.md$/; is_code = !in_papers && file !~ /\.md$/
  line_number = 0
  while ((getline line < file) > 0) {
    ++line_number
    at = file ":" line_number
    background = is_note && line ~ /^Background:/
    if (is_note && line ~ ("^\\*\\*" label "\\*\\*")) {
      match(line, label)
      name = substr(line, RSTART, RLENGTH)
      if (name in defined) print at ": " name " is defined a second time, first at " defined[name]
      else { defined[name] = at; note[name] = file }
      line = substr(line, RSTART + RLENGTH)
    }
    while (match(line, label)) {
      name = substr(line, RSTART, RLENGTH)
      line = substr(line, RSTART + RLENGTH)
      if (background) { listed[name] = at; listing[name] = file; continue }
      cited[++citations] = name; place[citations] = at
      if (is_code && !(name in code)) code[name] = at
    }
  }
  close(file)
}
END {
  for (i = 1; i <= citations; ++i) if (!(cited[i] in defined)) print place[i] ": " cited[i] " is cited and no note in papers/ defines it"
  for (name in defined) {
    if (!(name in code) && !(name in listed)) print defined[name] ": " name " is defined, but no code outside papers/ cites it and no Background: line lists it"
  }
  for (name in listed) {
    if (!(name in defined) || note[name] != listing[name]) print listed[name] ": " name " is listed as background, but this note does not define it"
    else if (name in code) print listed[name] ": " name " is listed as background, but " code[name] " cites it"
  }
}'

# Prints "file:line target" for every relative link of the Markdown files on stdin; code spans and blocks are not links.
links='
function emit(target) {
  sub(/[ \t].*$/, "", target); gsub(/[<>]/, "", target); sub(/#.*$/, "", target)
  if (target != "" && target !~ /^[A-Za-z][A-Za-z0-9+.-]*:/) print file ":" line_number " " target
}
{
  file = $0; line_number = 0; fenced = 0
  while ((getline line < file) > 0) {
    ++line_number
    if (line ~ /^ *(```|~~~)/) { fenced = !fenced; continue }
    if (fenced || line ~ /^(    |\t)/) continue
    gsub(/`[^`]*`/, "", line)
    if (match(line, /^ *\[[^]]*\]: */)) emit(substr(line, RSTART + RLENGTH))
    while (match(line, /\]\([^)]*\)/)) {
      target = substr(line, RSTART + 2, RLENGTH - 3)
      line = substr(line, RSTART + RLENGTH)
      emit(target)
    }
  }
  close(file)
}'

check_tree() { # directory
  cd "$1"
  tree_files >"$work/files"
  grep -q '^papers/.*\.md$' "$work/files" || { echo "FAILED: no notes in $1/papers (nothing would be checked)"; return 1; }
  awk "$citations" "$work/files" >"$work/offenders"
  grep '\.md$' "$work/files" | awk "$links" >"$work/links"
  while read -r place target; do
    file=${place%:*}
    case $target in
      /*) echo "$place: the link $target is absolute (it would not work on another machine)" ;;
      *) [ -e "$(dirname -- "$file")/$target" ] || echo "$place: the link $target leads nowhere" ;;
    esac
  done <"$work/links" >>"$work/offenders"
  if [ -s "$work/offenders" ]; then
    sort -t: -k1,1 -k2,2n "$work/offenders"
    return 1
  fi
  echo "ok: $(wc -l <"$work/files") files, $(wc -l <"$work/links") relative links"
}

# A small tree, right as it stands. The labels are put together here, so that this file itself cites nothing.
plant() {
  rm -rf "$work/tree"
  mkdir -p "$work/tree/papers" "$work/tree/code" "$work/tree/build-x" "$work/tree/.git"
  printf '# Note\n\n**[%s:one]** first\n\n**[%s:two]** second\n\nsee [the code](../code/a.hpp#L1) and [%s:one]\n\nBackground: [%s:two]\n' \
    K K K K >"$work/tree/papers/note.md"
  printf '/// Source [%s:one].\n' K >"$work/tree/code/a.hpp"
  printf '[web](https://example.org/x) `[not](a link)` [here](#part)\n\n    [not](either)\n\n```\n[nor](this)\n```\n' >"$work/tree/README.md"
  printf '[%s:unseen] [bad](nowhere)\n' K | tee "$work/tree/build-x/a.md" >"$work/tree/.git/a.md"
}
expect() { # exit status, number of lines, a pattern that one of them matches, what is tested
  status=0
  (check_tree "$work/tree") >"$work/report" 2>&1 || status=1
  if [ "$status" -eq "$1" ] && [ "$(wc -l <"$work/report")" -eq "$2" ] && grep -q "$3" "$work/report"; then
    echo "ok: $4"
  else
    echo "FAILED: $4: expected exit $1 and $2 line(s) matching '$3', got exit $status and:"
    cat "$work/report"
    failed=1
  fi
}
self_test() {
  failed=0
  plant; expect 0 1 '^ok: 3 files, 1 relative' 'a tree without offenders passes'
  plant; printf '\n// [%s:three]\n' K >>"$work/tree/code/a.hpp"; expect 1 1 '^code/a.hpp:3: .*no note' 'a citation without definition'
  plant; printf '[%s:four]\n' K >>"$work/tree/README.md"; expect 1 1 '^README.md:8: .*no note' 'a citation in a document without definition'
  plant; printf '**[%s:one]** again\n' K >"$work/tree/papers/other.md"; expect 1 1 'papers/.*:[0-9]*: .*second time' 'a label defined twice'
  plant; echo '// nothing' >"$work/tree/code/a.hpp"; expect 1 1 '^papers/note.md:3: .*no code' 'a definition that no code cites'
  plant; printf '// [%s:two]\n' K >>"$work/tree/code/a.hpp"; expect 1 1 '^papers/note.md:9: .*code/a.hpp:2 cites' 'background that code cites'
  plant; printf 'Background: [%s:five]\n' K >>"$work/tree/papers/note.md"; expect 1 1 '^papers/note.md:10: .*does not define' 'background that is not defined'
  plant; rm "$work/tree/code/a.hpp"; printf '// [%s:one]\n' K >"$work/tree/code/b.cu"; expect 1 1 '^papers/note.md:7: .*leads nowhere' 'a link to a file that is gone'
  plant; echo 'see [a](b.md) and ![c](d.svg)' >>"$work/tree/README.md"; expect 1 2 '^README.md:8: .*b.md leads nowhere' 'two links in one line'
  plant; echo '[x]: missing.md' >>"$work/tree/README.md"; expect 1 1 'missing.md leads nowhere' 'a link by reference'
  plant; echo '[x](/etc/passwd)' >>"$work/tree/README.md"; expect 1 1 'is absolute' 'an absolute link'
  plant; rm "$work/tree/papers/note.md"; expect 1 1 '^FAILED: no notes' 'a tree without notes is no success'
  return $failed
}

case ${1:-} in
  --self-test) self_test ;;
  '') echo "usage: papers_test.sh SOURCE_DIR | --self-test" >&2; exit 2 ;;
  *) check_tree "$1" ;;
esac
