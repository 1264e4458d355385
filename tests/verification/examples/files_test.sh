#!/bin/sh
# files_test.sh ZEROPROOF FOLDER ENVIRONMENT    kernels of examples/triton_style through gen and judge, correct and wrong
#
# Each by the first Python that has its libraries: ZP_PYTHON (python3), or that of ENVIRONMENT, where the tests install
# zproof. Exit 77, which CTest reports as skipped, if none of the kernels could run.
set -eu
zeroproof=$1 examples=$2 environment=$3
fail() { printf 'FAILED: %s\n' "$1"; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PYTHONDONTWRITEBYTECODE=1 TRITON_INTERPRET=1 TRITON_CACHE_DIR="$folder/cache" CUDA_VISIBLE_DEVICES=

judged=0
for kernel in adamw_blocks:numpy adamw_triton:torch,triton; do
  libraries=${kernel#*:},safetensors kernel=${kernel%%:*} python=
  for candidate in "${ZP_PYTHON:-python3}" "$environment/bin/python"; do
    if [ -z "$python" ] && reason=$("$candidate" -c "import $libraries" 2>&1); then python=$candidate; fi
  done
  if [ -z "$python" ]; then
    printf 'SKIPPED: %s.py, no Python here has %s (%s); set ZP_PYTHON to one that does\n' "$kernel" "$libraries" \
      "$(printf '%s\n' "$reason" | tail -n 1)"
    continue
  fi
  for numel in 1 16 255 1003; do
    "$zeroproof" gen adamw_update --numel $numel -o "$folder/call" >"$folder/said"
    "$python" "$examples/$kernel.py" "$folder/call" "$folder/results" || fail "$kernel.py ended with $?"
    "$zeroproof" judge "$folder/call" "$folder/results" >"$folder/said" || fail "$kernel.py $numel: $(cat "$folder/said")"
  done
  "$python" "$examples/$kernel.py" "$folder/call" "$folder/results" --wrong || fail "$kernel.py --wrong ended with $?"
  code=0
  "$zeroproof" judge "$folder/call" "$folder/results" >"$folder/said" || code=$?
  [ "$code" = 1 ] || fail "$kernel.py --wrong: exit $code"
  grep -qF 'after.master differs in 11 of 1003 elements, first [992]' "$folder/said" ||
    fail "$kernel.py --wrong: $(cat "$folder/said")"
  printf 'ok: %s.py\n' "$kernel"
  judged=$((judged + 1))
done
[ "$judged" -gt 0 ] || exit 77
