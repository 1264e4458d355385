#!/bin/sh
# kernel_refused_test.sh CXX SOURCE_DIR
# Compiles refused_kernels.cu: what the simulated device does not have is refused with its reason, and by nothing else.
set -eu
compiler=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  printf 'FAIL: %s\n' "$1"
  exit 1
}
all=
case $("$compiler" --version) in *clang*) all=-ferror-limit=0 ;; esac
file=$source/tests/verification/interfaces/plugin/refused_kernels.cu
compile() {
  "$compiler" -std=c++17 -Wall $all -fsyntax-only -I "$source/verification/interfaces/capi" -x c++ "$@" "$file" 2>"$work/said"
}
compile || fail "without REFUSED: $(cat "$work/said")"
if compile -DREFUSED; then fail 'with REFUSED it compiles'; fi
grep 'error:' "$work/said" | grep -v 'zeroproof: ' >"$work/others" || true
[ ! -s "$work/others" ] || fail "errors without a reason: $(cat "$work/others")"
sed -n -e '/[;)}] *\/\/ /=' "$file" | tail -n +2 >"$work/lines"
count=0
while IFS= read -r line; do
  name=$(sed -n "$line{s|.*// ||;p;}" "$file")
  grep -qF -e "$name" "$work/said" || fail "no error has the reason of '$name': $(cat "$work/said")"
  grep -q "refused_kernels.cu:$line:" "$work/said" || fail "no error is about line $line, '$name'"
  count=$((count + 1))
done <"$work/lines"
[ "$count" -ge 30 ] || fail "only $count reasons were looked for"
echo "ok: $count reasons"
