#!/bin/sh
# compilers.sh SOURCE_DIR [BUILD_DIR]     builds golden_digests with g++ and clang++ at -O0 and -O3 (the host kernels too)
# and compares the committed digests from each of the four at 1, 2 and 4 threads: 12 times the same bits (V3).
# Exit status: 0 all equal, 1 a difference, 77 a compiler is missing (the others were still compared).
# Environment: GXX, CLANGXX name the compilers, ZP_JOBS the number of parallel jobs.
set -eu
[ $# -ge 1 ] || { printf 'usage: compilers.sh SOURCE_DIR [BUILD_DIR]\n' >&2; exit 2; }
source=$(CDPATH='' cd -- "$1" && pwd -P)
builds=${2:-$source/build/golden}
jobs=${ZP_JOBS:-$(nproc 2>/dev/null || echo 1)}
file=$source/tests/golden/digests.txt
export OMP_WAIT_POLICY=PASSIVE

failed=0 missing=0 compared=0
for compiler in "${GXX:-g++}" "${CLANGXX:-clang++}"; do
  if ! command -v "$compiler" >/dev/null 2>&1; then
    printf 'skipped: there is no %s here\n' "$compiler"
    missing=1
    continue
  fi
  for level in -O0 -O3; do
    build=$builds/${compiler##*/}$level
    log=$build.log
    mkdir -p "$builds"
    # C is compiled by CMake's default compiler: it is the oracle, always built at -O0 and not used here.
    if ! { cmake -S "$source" -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_CXX_FLAGS_RELEASE="$level" -DZP_KERNEL_OPTIMISATION="$level" -DZP_MPI=OFF -DZP_CUDA=OFF &&
      cmake --build "$build" --parallel "$jobs" --target golden_digests; } >"$log" 2>&1; then
      printf 'FAILED: %s %s does not build; the end of %s:\n' "$compiler" "$level" "$log"
      tail -n 20 "$log"
      failed=1
      continue
    fi
    for threads in 1 2 4; do
      if "$build/tests/golden/golden_digests" --check "$file" --threads "$threads" >"$log" 2>&1; then
        printf 'ok: %s %s, %s threads: %s\n' "$compiler" "$level" "$threads" "$(tail -n 1 "$log")"
        compared=$((compared + 1))
      else
        printf 'FAILED: %s %s, %s threads:\n' "$compiler" "$level" "$threads"
        cat "$log"
        failed=1
      fi
    done
  done
done
printf '%s builds and thread counts gave the committed digests\n' "$compared"
[ "$failed" = 0 ] || exit 1
[ "$missing" = 0 ] || exit 77
