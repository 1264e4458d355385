#!/bin/sh
# ptx_test.sh ARCH NVCC SOURCE_DIR INCLUDE_ROOT [FLAG...]
# Reads the PTX of every device kernel: only correctly rounded, uncontracted arithmetic (R2, R4), nothing that
# flushes subnormals (R1), no float atomics (R10), no more bytes than a fold or an update must move; and the results
# of ptxas: registers, and no spills.
# ARCH: 90, as sm_90. FLAGs replace those of common/cmake/FpFlags.cmake.
set -eu
arch=$1 nvcc=$2 source=$3 root=$4
shift 4
if [ $# -eq 0 ]; then
  # shellcheck disable=SC2046  # one word per flag is wanted
  set -- $(sed -n '/COMPILE_LANGUAGE:CUDA>:/,/>)/p' "$source/common/cmake/FpFlags.cmake" |
    sed 's/.*COMPILE_LANGUAGE:CUDA>://; s/>).*//')
  case " $* " in *" --fmad=false "*) ;; *)
    printf 'FAILED: FpFlags.cmake gives no --fmad=false to CUDA sources (read: %s)\n' "$*"; exit 1 ;;
  esac
fi
flags=$*
ptxas=$(dirname "$nvcc")/ptxas
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# An add or mul without .rn may still be contracted by ptxas. min and max of floats treat NaN differently.
float='f(16|32|64)(x2)?|bf16(x2)?'
before='(^|[^a-z0-9_])'
atomics="$before(atom|red|redux)\.([a-z0-9]*\.)*($float)"
forbidden="$before(fma\.|mad\.([a-z]*\.)*($float)|(add|sub|mul|div|sqrt)\.($float)|(min|max)\.([a-z]*\.)*($float))"
forbidden="$forbidden|\.(ftz|approx|full)(\.|[[:space:]])|\.r[zmp]\.($float)|$atomics"

# R27 needs fused multiply-adds: the kernel of a product has them, rounded to nearest, and no other one does.
without_products() {
  case $1 in
    update/matrix_product | update/newton_schulz)
      awk '/\.entry/ { product = /matrix_product_kernel/ } { print product && /[ \t]fma\.rn\.f32[ \t]/ ? "" : $0 }' "$2" ;;
    *) cat "$2" ;;
  esac
}

# Kernels of CUB and Thrust: only these two, and only with integers (R10).
library() {
  case $1 in
    bulk/count_differing | gradients/grad_stats) return 0 ;;
    *) return 1 ;;
  esac
}

# Required instructions: if they are missing, this test reads the wrong code.
expected() {
  case $1 in
    layers/activations) printf 'mul.rn.f32 add.rn.f32 div.rn.f64 ld.global.v4.f32 st.global.v4.f32 bar.sync' ;;
    update/adam) printf 'mul.rn.f32 add.rn.f32 sub.rn.f32 div.rn.f32 sqrt.rn.f32 ld.global.v4.f32' ;;
    update/lamb) printf 'mul.rn.f32 add.rn.f32 sub.rn.f32 div.rn.f32 sqrt.rn.f32 mul.rn.f64 div.rn.f64 sqrt.rn.f64 ld.global.v4.f32 atom.global.add.u64' ;;
    layers/bias_dropout) printf 'mul.rn.f32 add.rn.f32 mul.wide.u32 ld.global.v4.f32 st.global.v4.f32' ;;
    bulk/batched_copy) printf 'ld.u8 st.u8 ld.v4.u32 st.v4.u32' ;;
    formats/calibration) printf 'div.rn.f64 mul.rn.f64 add.rn.f64 cvt.rn.f32.f64 st.shared.u64 bar.sync ld.global.u64' ;;
    formats/cast) printf 'ld.global.v4.u32 st.global.v4.u32 min.u32' ;;
    formats/clip_errors) printf 'mul.rn.f32 div.rn.f32 sub.rn.f32 mul.rn.f64 sqrt.rn.f64 atom.global.add.u64' ;;
    gradients/clip) printf 'mul.rn.f32 setp.lt.f32 div.rn.f64 cvt.rn.f32.f64 ld.global.v4.f32 st.global.v4.f32' ;;
    layers/cross_entropy) printf 'sub.rn.f32 div.rn.f32 mul.rn.f64 div.rn.f64 cvt.rn.f32.f64 max.u32' ;;
    bulk/count_differing) printf 'add.s64 ld.global.u16 ld.global.u32' ;;
    layers/elementary) printf 'mul.rn.f64 add.rn.f64 div.rn.f64 cvt.rn.f32.f64 ld.global.v4.f32 st.global.v4.f32' ;;
    layers/gated) printf 'mul.rn.f32 add.rn.f32 div.rn.f64 rcp.rn.f64 ld.global.v4.f32 st.global.v4.f32 bar.sync' ;;
    formats/block_scale) printf 'mul.rn.f32 atom.global.max.u32 ld.global.f32' ;;
    formats/fake_quantize) printf 'mul.rn.f32 div.rn.f32 add.rn.f32 ld.global.f32 st.global.f32 st.global.u8' ;;
    gradients/grad_max) printf 'ld.global.v4.u32 atom.shared.max.u32 atom.global.max.u32' ;;
    gradients/grad_norm) printf 'mul.rn.f64 add.rn.f64 shfl.sync.down.b32 atom.shared.add.u64 atom.global.add.u64' ;;
    gradients/grad_norm_exact) printf 'mul.rn.f64 ld.global.v4.f32 atom.shared.add.u64 atom.global.add.u64' ;;
    gradients/grad_norm_p) printf 'add.rn.f64 div.rn.f64 power_sum_kernel' ;;
    gradients/grad_scale) printf 'mul.rn.f32 ld.global.v4.f32 st.global.v4.f32 atom.global.or.b32' ;;
    gradients/grad_stats) printf 'max.u32 atom.global.max.u32 atom.global.add.u64' ;;
    gradients/grad_sum) printf 'add.rn.f32 ld.global.v4.f32 st.global.v4.f32' ;;
    formats/histogram) printf 'div.rn.f64 atom.global.add.u64 ld.global.u32' ;;
    update/matrix_product) printf 'fma.rn.f32 add.rn.f32 mul.rn.f32 ld.shared.v4.f32 st.global.f32 bar.sync' ;;
    update/muon) printf 'mul.rn.f32 add.rn.f32 sub.rn.f32 div.rn.f64 sqrt.rn.f64 ld.global.v4.f32 st.global.v4.f32' ;;
    update/newton_schulz) printf 'fma.rn.f32 mul.rn.f64 div.rn.f64 sqrt.rn.f64 cvt.rn.f32.f64 atom.global.add.u64' ;;
    update/loss_scaler) printf 'setp.ne.s32 st.global.u32' ;;
    formats/master_split) printf 'ld.global.v4.u32 st.global.v4.u32 shl.b32' ;;
    layers/norm_layers) printf 'mul.rn.f32 add.rn.f32 sub.rn.f32 div.rn.f32 sqrt.rn.f32 ld.shared.f32' ;;
    gradients/norm_finish) printf 'sqrt.rn.f64 mul.rn.f64 cvt.rn.f64.u64' ;;
    layers/softmax) printf 'mul.rn.f32 sub.rn.f32 div.rn.f32 mul.rn.f64 cvt.rn.f32.f64 max.u32' ;;
    update/step_scalars) printf 'div.rn.f64 sqrt.rn.f64 cvt.rn.f32.f64' ;;
    update/lion) printf 'mul.rn.f32 add.rn.f32 sub.rn.f32 ld.global.v4.f32 st.global.v4.f32' ;;
    formats/scale_recipe) printf 'div.rn.f32 mul.rn.f32 st.global.u8' ;;
    update/sgd) printf 'mul.rn.f32 add.rn.f32 sub.rn.f32 ld.global.v4.f32 st.global.v4.f32' ;;
    gradients/binned_sum | step/binned_sum) printf 'cvt.rn.f32.s64 mul.rn.f32 ld.global.v4.u32 st.global.v4.u32' ;;
    layers/weight_grad) printf 'mul.rn.f32 add.rn.f32 ld.shared.f32 ld.global.u16' ;;
    step/fold_nodes) printf 'add.rn.f32 ld.global.v4.f32 ld.global.v2.u32 st.global.v4.f32 ld.shared.v4.f32' ;;
    reduce/sources/fill_grad) printf 'mul.rn.f32 mul.wide.u32 st.global.v4.f32 st.global.v4.u32 globaltimer' ;;
    comm/combine_words) printf 'add.rn.f32 max.u64 or.b64 add.s64' ;;
    step/collect_amax) printf 'ld.global.v4.u32 shfl.sync.down.b32 atom.global.max.u64 max.u32' ;;
    step/make_codes) printf 'mul.rn.f32 ld.global.v4.f32 st.global.u32 st.global.f32' ;;
    step/make_scales) printf 'div.rn.f32 rcp.rn.f32 mul.rn.f32 atom.shared.max.u32 bar.sync' ;;
    step/stored_fused_update | step/stored_phase)
      printf 'mul.rn.f32 div.rn.f32 rcp.rn.f32 sqrt.rn.f32 redux.sync.max.u32 atom.global.max.u64'
      printf ' ld.global.v4.f32 st.global.v4.f32 st.global.v2.u32' ;;
    step/stored_values) printf 'mul.rn.f32 div.rn.f32 rcp.rn.f32 redux.sync.max.u32 st.global.v4.f32 st.global.u8' ;;
    step/trust_norms) printf 'mul.rn.f32 sqrt.rn.f32 mul.rn.f64 div.rn.f64 sqrt.rn.f64 ld.global.v4.f32 atom.shared.add.u64 atom.global.add.u64' ;;
    step/stored_trust_norms) printf 'mul.rn.f32 sqrt.rn.f32 mul.rn.f64 ld.global.v4.f32 atom.shared.add.u64 atom.global.add.u64' ;;
    step/transpose_bytes) printf 'ld.u32 st.u32 ld.shared.u8 bar.sync' ;;
    step/decide) printf 'div.rn.f64 sqrt.rn.f64 cvt.rn.f32.f64 atom.shared.add.u64' ;;
    step/finite_norm) printf 'mul.rn.f32 mul.rn.f64 add.rn.f64 ld.global.v4.f32 shfl.sync.down.b32 atom.global.add.u64 atom.global.max.u64 atom.global.or.b64 membar.gl' ;;
    step/matrix_passes) printf 'mul.rn.f32 add.rn.f32 sub.rn.f32 mul.rn.f64 cvt.rn.f32.f64 ld.global.v4.f32 st.global.v4.f32 st.global.v2.u32' ;;
    step/measured_fold) printf 'add.rn.f32 mul.rn.f32 mul.rn.f64 add.rn.f64 ld.global.u16 ld.global.u32 st.global.f32 ld.global.v4.f32 ld.shared.v4.f32 shfl.sync.down.b32 atom.global.add.u64 atom.global.max.u64 atom.global.or.b64 membar.gl' ;;
    step/fused_update) printf 'mul.rn.f32 div.rn.f32 sqrt.rn.f32 ld.global.v4.f32 st.global.v4.f32 st.global.v2.u32 mul.lo.s64' ;;
    step/phase_passes) printf 'mul.rn.f32 div.rn.f32 ld.global.v4.f32 st.global.v4.f32 st.global.v2.u32 atom.global.or.b64' ;;
    formats/stochastic_cast) printf 'mul.wide.u32 ld.global.v4.u32 st.global.v4.u32' ;;
  esac
}

floors() { awk -f "$source/tests/cuda/ptx_bytes.awk" "$1"; }

# inspect FILE NAME ARCH: prints a summary; fails on a violation.
inspect() {
  ptx=$folder/$(basename "$2").$3
  # shellcheck disable=SC2086  # one word per flag is wanted
  "$nvcc" -ptx -std=c++20 -O3 -arch="compute_$3" $flags -I"$root" -o "$ptx.raw" "$1"
  sed 's,//.*,,' "$ptx.raw" >"$ptx"
  kernels=$(grep -c '\.entry' "$ptx" || true)
  what="each rounded to nearest"
  rules=$forbidden
  if [ "$2" = gradients/grad_norm_p ]; then
    # Of class bounded: the library's pow contracts and approximates. Exempt, but only this one kernel.
    rules=$atomics what="class bounded, exempt because of pow"
    [ "$kernels" -eq 1 ] || { printf 'FAILED: %s: %s kernels are exempt, 1 is allowed\n' "$2" "$kernels"; return 1; }
  fi
  if library "$2"; then
    rules='\.b?f(16|32|64)' what="none allowed"
  fi
  problem=$(without_products "$2" "$ptx" | grep -nE "$rules" | head -n 3 || true)
  if [ "$2" = gradients/clip ] || [ "$2" = step/decide ]; then
    # q < 1 ? q : 1 of the clip coefficient. A minimum with a constant gives the constant for NaN, and so does this.
    problem=$(grep -nE "$rules" "$ptx" | grep -vE 'min\.f64.*, 0d3FF0000000000000;' | head -n 3 || true)
  fi
  for instruction in $(expected "$2"); do
    grep -qF "$instruction" "$ptx" || problem="$problem no $instruction"
  done
  moved=
  case $2 in
    step/fold_nodes | step/fused_update) moved=$(floors "$ptx") || problem="$problem $moved" ;;
  esac
  [ -n "$(expected "$2")" ] || [ "$kernels" -eq 0 ] || problem="$problem unknown kernel: add it here"
  if [ "$kernels" -gt 0 ]; then
    "$ptxas" -v -O3 -arch="sm_$3" -o "$ptx.cubin" "$ptx.raw" >"$ptx.usage" 2>&1
    spilled=$(grep -E '[1-9][0-9]* bytes spill' "$ptx.usage" | head -n 1 || true)
    if library "$2"; then spilled=; fi  # CUB chooses its registers
    problem="$problem$spilled"
    [ "$(grep -c 'Used [0-9]* registers' "$ptx.usage")" -eq "$kernels" ] || problem="$problem registers unknown"
  fi
  if [ -n "$problem" ]; then
    printf 'FAILED: %s.cu sm_%s: %s\n' "$2" "$3" "$problem"
    return 1
  fi
  rounded=$(grep -cE '\.rn\.f(32|64)' "$ptx" || true)
  printf 'ok: %s.cu sm_%s: %s kernels, %s float operations, %s%s\n' "$2" "$3" "$kernels" "$rounded" "$what" \
    "${moved:+; bytes of every element: $moved}"
  [ "$kernels" -eq 0 ] || registers "$ptx.usage"
}

# One line per kernel: registers, stack and spills.
registers() {
  awk -F"'" '/Compiling entry function/ { name = $2; stack = "" }
    /bytes stack frame/ && stack == "" { stack = $0; gsub(/^ *| bytes/, "", stack) }
    /Used [0-9]+ registers/ { used = $0; sub(/.*Used /, "", used); sub(/,.*/, "", used); print name, used ", " stack }' \
    "$1" | { c++filt 2>/dev/null || cat; } |
    sed 's/zeroproof::cuda::device:://g; s/(anonymous namespace):://g; s/^void //; s/([a-zA-Z]*)\([0-9]\)/\1/g
         s/elementwise_kernel<\(.*[^ ]\) *>(.*PackSplit)/\1/; s/step_kernel<\(.*[^ ]\) *>(.*PieceGrid)/\1/; s/^/      /' | sort
}

failed=0 files=0
for file in "$source"/cuda/device/step/*.cu "$source"/cuda/device/kernels/*/*.cu "$source"/cuda/comm/*.cu \
  "$source"/cuda/reduce/sources/*.cu; do
  name=${file#"$source"/cuda/} name=${name#device/} name=${name#kernels/}
  inspect "$file" "${name%.cu}" "$arch" || failed=1
  files=$((files + 1))
done
[ "$files" -gt 0 ] || { printf 'FAILED: no .cu file in %s/cuda/device\n' "$source"; exit 1; }

# Words that only one header may contain, and words that no file may contain.
found=$(grep -nE '__shared__|__global__|__device__|<<<|#pragma unroll|\basm\b|cub/|thrust/' "$source"/cuda/device/*.hpp \
  "$source"/cuda/device/step/* "$source"/cuda/device/sim/*.[ch]pp "$source"/cuda/device/kernels/*/* "$source"/cuda/comm/*.cu \
  "$source"/cuda/reduce/sources/* \
  "$source"/cuda/device/runtime/*.[ch]pp |
  grep -vE '/launch\.hpp:|define ZP_HOST_DEVICE |/(count_differing|grad_stats)\.cu:[0-9]*:#include' || true)
[ -z "$found" ] || { printf 'FAILED: not simulated (cuda/device/runtime/launch.hpp has the words for it): %s\n' "$found"; failed=1; }

# The test itself must be able to fail: a planted contraction and a spill. 64 values do not fit into 32 registers.
plant() {
  printf '%s\n' "$2" >"$folder/planted.cu"
  if inspect "$folder/planted.cu" "$1" "$arch" >"$folder/planted.out" || ! grep -qE "$3" "$folder/planted.out"; then
    printf 'FAILED: a planted %s was not reported: %s\n' "$3" "$(cat "$folder/planted.out")"
    failed=1
  else
    printf 'ok: a planted %s is reported\n' "$3"
  fi
}
# Leaves that were widened before the fold, and a parameter that is written in fp32 besides.
for wide in fold_nodes:ld.global.v2.u32:ld.global.v4.f32 fused_update:st.global.v2.u32:st.global.v4.u32; do
  IFS=: read -r kernel narrow wider <<END
$wide
END
  sed "s/$narrow/$wider/" "$folder/$kernel.$arch" >"$folder/wide"
  if floors "$folder/wide" >"$folder/wide.out"; then
    printf 'FAILED: wider elements in %s were not reported: %s\n' "$kernel" "$(cat "$folder/wide.out")"
    failed=1
  else
    printf 'ok: wider elements in %s are reported\n' "$kernel"
  fi
done
for name in contraction update/matrix_product; do
  plant $name '__global__ void k(float* x) { x[0] = __fmaf_rn(x[1], x[2], x[3]); }' '[0-9]:.*fma\.rn'
done
plant gradients/grad_stats '__global__ void k(float* x) { x[0] = __fadd_rn(x[1], x[2]); }' 'reg \.f32'
plant spill '__global__ void __launch_bounds__(1024, 2) k(float* x) {
  float a[64];
  for (int i = 0; i < 64; ++i) a[i] = x[i * 1024 + threadIdx.x];
  __syncthreads();
  for (int i = 0; i < 64; ++i) for (int j = 0; j < 64; ++j) a[j] = a[j] * a[i];
  for (int i = 0; i < 64; ++i) x[i * 1024 + threadIdx.x] = a[i];
}' 'bytes spill'
exit $failed
