#!/bin/sh
# The product contains no faults: sh tests/no_faults_test.sh SOURCE_DIR ZEROPROOF ZEROPROOF_FAULTS PRODUCT.a...
# Its sources (common/, reference/, cuda/) contain no fault of the catalogue and no hook for one. Its archives contain no
# id of a fault. The released program contains the catalogue and none of the functions that plant faults; the one
# that plants them must have those, else this test checks the wrong names.
# Exit status: 0 passed, 1 failed.
set -eu
root=$1 program=$2 planted=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
status=0
fail() {
  printf 'FAIL  %s\n' "$1"
  status=1
}

sed -n 's/^ *{"\([^"]*\)",.*/\1/p' "$root"/verification/faults/catalogue*.cpp | sort -u >"$work/ids"
[ "$(wc -l <"$work/ids")" -ge 141 ] || fail "only $(wc -l <"$work/ids") ids were found in the catalogue"

# The word fault is legal in cuda/optimizer/overlap/plan_audit, and for late ranks.
hooks='ZP_([A-Z_]*_)?(FAULT|SABOTAGE)|string_view fault|[Ss]aboteur|[Ff]aulty|exec_?\.fault|fault_?\.(id|hpp)|faults/|planted|verification/'
found=$(cd "$root" && { grep -rnE "$hooks" common/*/ cuda reference --include='*.?pp' --include='*.cu*' \
  --include='CMakeLists.txt' || true
  grep -rnFf "$work/ids" common cuda reference --include='*.?pp' --include='*.cu*' | grep '"' || true; } | sort -u)
[ -z "$found" ] || fail "the sources of the product contain faults:
$found"

for archive in "$@"; do
  # whole strings: an id may be a prefix of another one
  ids=$(tr -c '[:print:]' '\n' <"$archive" | sort -u | grep -F -x -f "$work/ids" || true)
  [ -z "$ids" ] || fail "${archive##*/} names faults: $ids"
done

# Functions that only planted faults have.
planters='wrong_(lbfgs|reduce|update|layers|device)|put_wrong_adam|set_up_wrongly'
strings_of() { tr -c '[:print:]' '\n' <"$1" | grep -cF -x -f "$work/ids" || true; }
[ "$(nm -C "$program" | grep -cE "$planters")" = 0 ] || fail "${program##*/} can plant faults"
[ "$(nm -C "$planted" | grep -cE "$planters")" -ge 6 ] || fail "${planted##*/} cannot plant faults, or they have other names"
[ "$(strings_of "$program")" -ge 100 ] || fail "${program##*/} does not contain the catalogue"
[ "$status" != 0 ] || echo "$(wc -l <"$work/ids") faults, none of them in the product's sources and $# archives"
exit "$status"
