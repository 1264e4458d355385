#!/bin/sh
# plugin_cuda_test.sh NVCC SOURCE_DIR BUILD_DIR [gpu]
# The kernels of the examples, built by nvcc: they compile, are refused with simulated devices, and are judged on a GPU.
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
kernels=$source/verification/examples/plugin_cuda
compile() { # NAME OPTION...
  name=$1
  shift
  "$nvcc" -std=c++17 -O2 -fmad=false -arch=sm_80 -shared -Xcompiler -fPIC -I "$source/verification/interfaces/capi" "$@" \
    -o "$work/lib$name.so"
}
judge() { # PROGRAM LIBRARY ARGUMENT...
  code=0
  program=$1 library=$2
  shift 2
  "$program" verify --plugin "$library" "$@" >"$work/said" 2>&1 || code=$?
}
compile right "$kernels/adamw.cu"
compile tail -DTAIL_MISSING "$kernels/adamw.cu"
compile fused "$kernels/fused.cu"
compile language "$source/tests/verification/interfaces/plugin/language_kernels.cu"
judge "$build/zeroproof-sim" "$work/libright.so" adamw_update
grep -q 'was built for a GPU' "$work/said" || fail "zeroproof-sim printed: $(cat "$work/said")"
[ "$code" = 2 ] || fail "zeroproof-sim ended with $code"
judge "$build/zeroproof" "$work/libright.so" adamw_update
if grep -q 'there is none (' "$work/said"; then
  [ "${4:-}" != gpu ] || [ -z "${ZP_REQUIRE_GPU:-}" ] || fail 'no GPU answers'
  echo 'ok: compiled and refused; no GPU answers, so it was not run on one'
  [ "${4:-}" != gpu ] || exit 77
  exit 0
fi
[ "$code" = 0 ] || fail "the correct kernel: $(cat "$work/said")"
judge "$build/zeroproof" "$work/libtail.so" adamw_update
[ "$code" = 1 ] || fail "the kernel without its tail: $(cat "$work/said")"
judge "$build/zeroproof" "$work/libfused.so" adamw_update adamw_update_bf16 grad_norm_p --accept any-order --declined accept
[ "$code" = 0 ] || fail "the fused kernels: $(cat "$work/said")"
ZP_KERNEL=whole_language judge "$build/zeroproof" "$work/liblanguage.so" clip
[ "$code" = 0 ] || fail "shared memory, shuffles, votes and atomics: $(cat "$work/said")"
echo 'ok: judged on a GPU'
