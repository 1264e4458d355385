#!/bin/sh
# record_torch_test.sh SCRIPT    messages of record_torch.py and record_muon.py beside it, without PyTorch and for invalid
# words; it needs only Python
set -eu
script=$1
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
expect 0 '--identify' --help
expect 2 '--out' --steps 1
expect 2 "'fusd' is not known" --out "$folder/x" --forms fusd
expect 2 'deepspeed has only' --out "$folder/x" --forms deepspeed
expect 2 'lamb has only' --out "$folder/x" --variants lamb
expect 2 'lamb has only' --out "$folder/x" --forms timm --variants adamw
if python3 -c 'import torch' 2>/dev/null; then
  expect 0 '1 steps of 3 elements, 3 in all' --out "$folder/x" --sizes 1,2 --steps 1 --forms fused --variants adamw
  [ -s "$folder/x/torch-cpu-fused.fused.adamw.1.safetensors" ] || fail 'nothing was written'
else
  expect 3 'PyTorch is not here' --out "$folder/x"
  [ ! -e "$folder/x" ] || fail 'a folder was made for nothing'
fi
script=$(dirname "$script")/record_muon.py
expect 0 '--identify' --help
expect 2 '--out' --keep 1
expect 2 "'tourch' is not known" --out "$folder/m" --forms tourch
if python3 -c 'import torch' 2>/dev/null; then
  expect 0 '1 steps' --out "$folder/m" --keep 2 --forms moonlight --variants plain
  [ -s "$folder/m/moonlight-muon.moonlight.plain.2.safetensors" ] || fail 'nothing was written'
else
  expect 3 'PyTorch is not here' --out "$folder/m"
  [ ! -e "$folder/m" ] || fail 'a folder was made for nothing'
fi
