#!/bin/sh
# bench_device_smoke_test.sh SIMULATED FOLDER [REAL]   zeroproof-bench-device on the simulated device at small sizes: rows,
# figures, bits, width of the table, record, exit codes; torch_peer.py in FOLDER without PyTorch; and, if it was built, the
# program for a real device where there is none. Speed is not judged.
set -eu
fail() { printf 'FAILED: %s\n' "$1"; exit 1; }

bench=$1 peer=$2/torch_peer.py real=${3:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$bench" --numel 2048,17408 --small-numel 1024 --rank-numel 16384 --ranks 2 --rounds 2 --json "$folder/record.json" \
  >"$folder/table" 2>"$folder/said" || fail "exit $? of a good run: $(cat "$folder/said" "$folder/table")"
[ "$(grep -c '^same ' "$folder/table")" -eq 6 ] || fail "not all bits were compared: $(cat "$folder/table")"
for row in 'limit R ' 'limit 4R3W+W2' 'limit 8xR2W4' finite_norm fused_update 'two passes, graph' 'fold of 8' \
  'step, 1 tensor' 'step, 300 tensors' 'step in phases, 1 tensor' 'step, host' 'reduce during the backward pass'; do
  grep -q "^$row" "$folder/table" || fail "no row '$row': $(cat "$folder/table")"
done
for figure in 'finite_norm, of the read' 'two passes by a graph, of 34' '300 tensors, of one' 'step in phases, of' \
  'host time of an enqueued step' 'communication that overlap leaves exposed'; do
  grep -q "^$figure" "$folder/table" || fail "no figure '$figure'"
done
if grep -q 'met$\|missed$' "$folder/table"; then fail "times of a simulated device were judged"; fi
awk 'length > 100 { exit 1 }' "$folder/table" || fail "the table is wider than 100 columns"
[ "$(grep -c elements "$folder/said")" -eq 6 ] || fail "not every group was announced: $(cat "$folder/said")"
for text in '"schema": "zeroproof-bench-device/1"' '"simulated": true' '"samples_s"' '"figures"'; do
  grep -qF "$text" "$folder/record.json" || fail "the record has no $text"
done
if grep -q '"ok": false' "$folder/record.json"; then fail "the record says that bits differ"; fi
printf 'ok: a small run\n'

"$bench" --rows small --small-numel 1024 --rounds 1 >"$folder/table" 2>"$folder/said" || fail "exit $? of one group"
if grep -q '^finite_norm' "$folder/table"; then fail "rows that were not asked for"; fi

# refused CODE TEXT PROGRAM FLAGS...: this exit code, and one sentence.
refused() {
  wanted=$1 text=$2 code=0
  shift 2
  "$@" >"$folder/table" 2>"$folder/errors" || code=$?
  [ "$code" -eq "$wanted" ] || fail "exit $code instead of $wanted of $*: $(cat "$folder/errors")"
  [ "$(wc -l <"$folder/errors")" -eq 1 ] || fail "not one line: $(cat "$folder/errors")"
  grep -qF "$text" "$folder/errors" || fail "unclear error: $(cat "$folder/errors")"
}
refused 2 'moves whole chunks' "$bench" --numel 1025
refused 2 'was not understood' "$bench" --rows everything
refused 2 'was not understood' "$bench" --ranks 1
refused 2 'could not be written' "$bench" --json "$folder/none/record.json"
if [ -n "$real" ] && [ -x "$real" ]; then
  code=0
  "$real" --rows small --rounds 1 >"$folder/table" 2>"$folder/errors" || code=$?
  case $code in
    0) ;;
    3) grep -q 'no device answers' "$folder/errors" || fail "unclear error: $(cat "$folder/errors")" ;;
    *) fail "exit $code of the program for a real device: $(cat "$folder/errors")" ;;
  esac
fi
printf 'ok: flags and exit codes\n'

if python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
  PYTHONPYCACHEPREFIX=$folder/cache python3 -m py_compile "$peer" || fail "torch_peer.py does not compile"
  refused 2 'was not understood' python3 -B "$peer" --numel many
  # Without PyTorch: a module of that name that cannot be imported.
  mkdir "$folder/torch" && echo 'raise ImportError("no torch in this test")' >"$folder/torch/__init__.py"
  PYTHONPATH=$folder refused 3 'nothing was measured' python3 -B "$peer" --json "$folder/peer.json"
  grep -q '"not_measured": ".*no torch in this test' "$folder/peer.json" || fail "the peer's record does not say why"
  printf 'ok: the peer says why it does not run\n'
fi
