#!/bin/sh
# plugin_cuda_test.sh NVCC SOURCE_DIR BUILD_DIR [gpu]
# The kernel of the example, built by nvcc: it compiles, is refused with simulated devices, and is judged on a GPU.
# Without a GPU only the first two are tested; with the word gpu the test is then skipped, or failed if ZP_REQUIRE_GPU
# is set.
set -eu
nvcc=$1 source=$2 build=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  printf 'FAIL: %s\n' "$1"
  exit 1
}
compile() {
  "$nvcc" -std=c++17 -O2 -fmad=false -shared -Xcompiler -fPIC -I "$source/verification/interfaces/capi" "$@" \
    "$source/verification/examples/plugin_cuda/adamw.cu"
}
judge() {
  code=0
  "$1" verify adamw_update --plugin "$2" >"$work/said" 2>&1 || code=$?
}
compile -o "$work/libright.so"
compile -DTAIL_MISSING -o "$work/libtail.so"
judge "$build/zeroproof-sim" "$work/libright.so"
grep -q 'was built for a GPU' "$work/said" || fail "zeroproof-sim printed: $(cat "$work/said")"
[ "$code" = 2 ] || fail "zeroproof-sim ended with $code"
judge "$build/zeroproof" "$work/libright.so"
if grep -q 'there is none (' "$work/said"; then
  [ "${4:-}" != gpu ] || [ -z "${ZP_REQUIRE_GPU:-}" ] || fail 'no GPU answers'
  echo 'ok: compiled and refused; no GPU answers, so it was not run on one'
  [ "${4:-}" != gpu ] || exit 77
  exit 0
fi
[ "$code" = 0 ] || fail "the correct kernel: $(cat "$work/said")"
judge "$build/zeroproof" "$work/libtail.so"
[ "$code" = 1 ] || fail "the kernel without its tail: $(cat "$work/said")"
echo 'ok: judged on a GPU'
