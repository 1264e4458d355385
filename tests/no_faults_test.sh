#!/bin/sh
# No trace of a planted fault is in the product: sh tests/no_faults_test.sh SOURCE_DIR PRODUCT.a WITH_FAULTS.a
# Every build knows what could be planted (the catalogues); no other object file of the product may name one of them. The
# library with the faults must name most of them (a compiler may turn short words into numbers), or this test would look
# for the wrong words.
# Exit status: 0 as it should be, 1 not so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
sed -n 's/^ *{"\([^"]*\)",.*/\1/p' "$1"/cuda/faults/*catalogue.cpp | sort >"$work/ids"
[ "$(wc -l <"$work/ids")" -ge 100 ] || {
  echo "FAIL  only $(wc -l <"$work/ids") ids were found in the catalogues"
  exit 1
}

# The ids that the object files of a library name, except for its catalogues.
named() { # library
  rm -rf "$work/objects"
  mkdir "$work/objects"
  (cd "$work/objects" && ar x "$1" && rm -f -- *catalogue*)
  # whole strings: an id that begins another one must not stand for it
  cat "$work/objects"/* | tr -c '[:print:]' '\n' | sort -u | grep -F -x -f "$work/ids" || true
}
status=0
planted=$(named "$2")
if [ -n "$planted" ]; then
  printf 'FAIL  %s names planted faults:\n%s\n' "${2##*/}" "$planted"
  status=1
fi
all=$(wc -l <"$work/ids") seen=$(named "$3" | wc -l)
if [ $((2 * seen)) -lt "$all" ]; then
  echo "FAIL  only $seen of $all faults can be seen in ${3##*/}"
  status=1
fi
[ "$status" != 0 ] || echo "$all faults, none of them in ${2##*/}, $seen seen in ${3##*/}"
exit "$status"
