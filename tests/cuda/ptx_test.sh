#!/bin/sh
# ptx_test.sh NVCC SOURCE_DIR INCLUDE_ROOT [FLAG...]
# Reads the PTX of every device kernel: only correctly rounded, uncontracted arithmetic (R2, R4), nothing that
# flushes subnormals (R1), no float atomics (R10). FLAGs stand in for those of common/cmake/FpFlags.cmake.
set -eu
nvcc=$1 source=$2 root=$3
shift 3
if [ $# -eq 0 ]; then
  # shellcheck disable=SC2046  # one word per flag is wanted
  set -- $(sed -n '/COMPILE_LANGUAGE:CUDA>:/,/>)/p' "$source/common/cmake/FpFlags.cmake" |
    sed 's/.*COMPILE_LANGUAGE:CUDA>://; s/>).*//')
  case " $* " in *" --fmad=false "*) ;; *)
    printf 'FAILED: FpFlags.cmake gives no --fmad=false to CUDA sources (read: %s)\n' "$*"; exit 1 ;;
  esac
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# An add or mul without .rn may still be contracted by ptxas. min and max of floats treat NaN their own way.
float='f(16|32|64)(x2)?|bf16(x2)?'
forbidden="fma\.|mad\.([a-z]*\.)*($float)|(add|sub|mul|div|sqrt)\.($float)|(min|max)\.([a-z]*\.)*($float)"
forbidden="(^|[^a-z0-9_])($forbidden)|\.(ftz|approx|full)(\.|[[:space:]])|\.r[zmp]\.($float)"
forbidden="$forbidden|(atom|red)\.([a-z]*\.)*($float)"

# Instructions that must be there: if they are not, this test looks at the wrong thing.
expected() {
  case $1 in
    adam) printf 'mul.rn.f32 add.rn.f32 sub.rn.f32 div.rn.f32 sqrt.rn.f32 ld.global.v4.f32' ;;
    cast) printf 'ld.global.v4.u32 st.global.v4.u32' ;;
    clip) printf 'mul.rn.f32 ld.global.v4.f32 st.global.v4.f32' ;;
    grad_norm) printf 'mul.rn.f64 add.rn.f64 shfl.sync.down.b32 atom.shared.add.u64' ;;
    grad_scale) printf 'mul.rn.f32 ld.global.v4.f32 st.global.v4.f32 atom.global.or.b32' ;;
    grad_sum) printf 'add.rn.f32 ld.global.v4.f32 st.global.v4.f32' ;;
  esac
}

failed=0 files=0
for file in "$source"/cuda/device/*.cu; do
  name=$(basename "$file" .cu)
  for arch in compute_80 compute_90; do
    ptx=$folder/$name.$arch
    "$nvcc" -ptx -std=c++20 -O3 -arch=$arch "$@" -I"$root" -o "$ptx.raw" "$file"
    sed 's,//.*,,' "$ptx.raw" >"$ptx"
    kernels=$(grep -c '\.entry' "$ptx" || true)
    problem=$(grep -nE "$forbidden" "$ptx" | head -n 3 || true)
    for instruction in $(expected "$name"); do
      grep -qF "$instruction" "$ptx" || problem="$problem no $instruction"
    done
    [ -n "$(expected "$name")" ] || [ "$kernels" -eq 0 ] || problem="$problem unknown kernel: add it here"
    if [ -n "$problem" ]; then
      printf 'FAILED: %s.cu %s: %s\n' "$name" "$arch" "$problem"
      failed=1
    else
      rounded=$(grep -cE '\.rn\.f(32|64)' "$ptx" || true)
      printf 'ok: %s.cu %s: %s kernels, %s float operations, each rounded to nearest\n' \
        "$name" "$arch" "$kernels" "$rounded"
    fi
    files=$((files + 1))
  done
done
[ "$files" -gt 0 ] || { printf 'FAILED: no .cu file in %s/cuda/device\n' "$source"; exit 1; }
exit $failed
