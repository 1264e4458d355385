#!/bin/sh
# muon_test.sh FOLDER    messages of judge_muon.py, which needs only Python for them; the packages are not installed
set -eu
script=$1/judge_muon.py
fail() { printf 'FAILED: %s\n' "$1"; exit 1; }
command -v python3 >/dev/null || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PYTHONDONTWRITEBYTECODE=1
expect() {
  want=$1 part=$2
  shift 2
  code=0
  python3 "$script" "$@" >"$folder/said" 2>&1 || code=$?
  [ "$code" = "$want" ] || fail "$* ended with $code, not $want: $(cat "$folder/said")"
  grep -q -e "$part" "$folder/said" || fail "$* did not say '$part': $(cat "$folder/said")"
  printf 'ok: %s\n' "$part"
}
expect 0 '--results' --help
expect 0 'keller-jordan-3-ranks .*expected: fails' --list
expect 2 "there is no row 'deepsped'" deepsped
if ! python3 -c 'import torch' 2>/dev/null; then
  expect 3 'PyTorch is not here' --results "$folder/r" torch-fsdp2
  [ ! -e "$folder/r" ] || fail 'a folder was made for nothing'
fi
