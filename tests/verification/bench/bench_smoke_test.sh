#!/bin/sh
# bench_smoke_test.sh PROGRAM     zeroproof-bench on little memory: bits, width of the table, record, exit codes.
# Speed is not judged: tests share their machine.
set -eu
fail() { printf 'FAILED: %s\n' "$1"; exit 1; }

bench=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$bench" --mib 2 --rounds 2 --rows kernels --json "$folder/record.json" >"$folder/table" || fail "exit $? of a good run"
[ "$(grep -c '^same ' "$folder/table")" -eq 6 ] || fail "not all bits were compared: $(cat "$folder/table")"
for row in adamw unscale add_nodes norm clip 'cast to bf16' 'cast to fp16' 'fused step' 'seven passes' 'limit 4R3W'; do
  grep -q "^$row " "$folder/table" || fail "no row '$row'"
done
awk 'length > 100 { exit 1 }' "$folder/table" || fail "the table is wider than 100 columns"
grep -q '"schema": "zeroproof-bench/2"' "$folder/record.json" || fail "the record does not name its schema"
printf 'ok: a small run\n'

"$bench" --numel 16384 --rounds 1 --threads 1 >"$folder/table" || fail "exit $? with one thread"
[ "$(grep -c '^same ' "$folder/table")" -eq 9 ] || fail "not all parts were compared: $(cat "$folder/table")"
printf 'ok: one thread\n'

# Odd sizes: tensors of 3 elements, the last chunk of each short.
"$bench" --rows product --numel 30001 --rounds 2 --json "$folder/record.json" >"$folder/table" ||
  fail "exit $? of product rows: $(cat "$folder/table")"
for line in 'product = contract: .* (12)$' 'product: an infinite gradient changes nothing (12)$' 'twins .* = contract (2)$'; do
  grep -q "^same  $line" "$folder/table" || fail "no '$line': $(cat "$folder/table")"
done
for row in '   1       1  0 fp32' '   1   10000  0 fp32' '   4      69  3 fp32' '  16      69  0 fp32' '  16       1  0 bf16'; do
  grep -q "^$row" "$folder/table" || fail "no row '$row': $(cat "$folder/table")"
done
awk 'length > 100 { exit 1 }' "$folder/table" || fail "the table of product rows is wider than 100 columns"
[ "$(grep -c '"step_to_twins"' "$folder/record.json")" -eq 12 ] || fail "the record has not 12 product rows"
printf 'ok: product rows\n'

"$bench" --rows product --numel 5000 --rounds 1 --micro-batches 2 --tensors 3 --grads bf16 --stages 2 --bucket 1024 \
  --save "$folder/case.safetensors" >"$folder/table" || fail "exit $? of one product row: $(cat "$folder/table")"
[ "$(grep -c '^   2       3  2 bf16' "$folder/table")" -eq 1 ] || fail "not the row that was asked for"
for tensor in leaf.0 leaf.1 first.exp_avg_sq param tensor_numel; do
  head -c 2000 "$folder/case.safetensors" | grep -aqF "\"$tensor\"" || fail "the saved case has no $tensor"
done
printf 'ok: one product row, saved\n'

"$bench" --sweep --numel 8192 --rounds 1 --json "$folder/record.json" >"$folder/table" ||
  fail "exit $? of a sweep: $(cat "$folder/table")"
for axis in parameters tensors micro-batches buckets ranks; do
  grep -q "^$axis: " "$folder/table" || fail "no axis $axis"
done
grep -q '^same  product = contract along a sweep (5)' "$folder/table" || fail "the sweep was not compared"
[ "$(grep -c '"worst_residual"' "$folder/record.json")" -eq 5 ] || fail "the record has not five axes"
printf 'ok: a sweep\n'

mkdir "$folder/saves"
"$bench" --checkpoint "$folder/saves" --numel 300001 --rounds 2 --ranks 1,3 --json "$folder/record.json" \
  >"$folder/table" || fail "exit $? of saves: $(cat "$folder/table")"
grep -q '^same  a checkpoint = the state that was saved (2)$' "$folder/table" || fail "saves were not compared"
[ "$(grep -c '^    [13]  ' "$folder/table")" -eq 4 ] || fail "not two rows of each table: $(cat "$folder/table")"
[ "$(grep -c '"raw_to_save"' "$folder/record.json")" -eq 2 ] || fail "the record has not two numbers of ranks"
[ -z "$(ls -A "$folder/saves")" ] || fail "something was left: $(ls -A "$folder/saves")"
awk 'length > 100 { exit 1 }' "$folder/table" || fail "the table of saves is wider than 100 columns"
code=0
"$bench" --checkpoint "$folder/none" --rounds 1 --numel 5000 >"$folder/table" 2>"$folder/errors" || code=$?
[ "$code" -eq 2 ] || fail "exit $code instead of 2 for a folder that is not there"
printf 'ok: checkpoints\n'

mkdir "$folder/state"
"$bench" --offload "$folder/state" --numel 300001 --rounds 2 --json "$folder/record.json" >"$folder/table" ||
  fail "exit $? of state elsewhere: $(cat "$folder/table")"
for line in 'step with state elsewhere = contract (4)$' 'an infinite gradient changes nothing elsewhere (4)$'; do
  grep -q "^same  $line" "$folder/table" || fail "no '$line': $(cat "$folder/table")"
done
for row in '     0.5 host ' '       1 host ' '     0.5 file ' '       1 file '; do
  grep -q "^$row" "$folder/table" || fail "no row '$row': $(cat "$folder/table")"
done
[ "$(grep -c '"step_to_floor"' "$folder/record.json")" -eq 4 ] || fail "the record has not four ways"
[ -z "$(ls -A "$folder/state")" ] || fail "something was left: $(ls -A "$folder/state")"
awk 'length > 100 { exit 1 }' "$folder/table" || fail "the table of state elsewhere is wider than 100 columns"
code=0
"$bench" --offload "$folder/none" --rounds 1 --numel 5000 >"$folder/table" 2>"$folder/errors" || code=$?
[ "$code" -eq 2 ] || fail "exit $code instead of 2 for a folder that is not there"
printf 'ok: state elsewhere\n'

# refused FLAGS: exit 2, and one sentence that names the problem.
refused() {
  code=0
  # shellcheck disable=SC2086  # flags are words
  "$bench" $1 >"$folder/table" 2>"$folder/errors" || code=$?
  [ "$code" -eq 2 ] || fail "exit $code instead of 2 of $1"
  [ "$(wc -l <"$folder/errors")" -eq 1 ] || fail "not one line: $(cat "$folder/errors")"
  grep -qF "$2" "$folder/errors" || fail "unclear error: $(cat "$folder/errors")"
}
refused '--sweep --rows product' 'a sweep has no rows'
refused '--checkpoint . --rows product' 'saves are measured by themselves'
refused '--checkpoint . --tensors 3' 'without product rows'
refused '--checkpoint . --mib 3' 'without kernel rows'
refused '--ranks 2' 'without --checkpoint'
refused '--offload . --sweep' 'state elsewhere is measured by itself'
refused '--offload . --tensors 3' 'without product rows'
refused '--numel 1000' 'work on blocks of 16384'
refused '--rows kernels --tensors 3' 'without product rows'
refused '--rows kernels --bucket 1024' 'without product rows'
refused '--rows product --mib 3' 'without kernel rows'
refused '--rows product --save case' 'without exactly one product row'
refused '--rows product --bucket 1025' 'multiples of 1024'
refused '--rows product --numel 5 --tensors 9' '5 parameters cannot be 9 tensors'
code=0
"$bench" --rows product --numel 60000000000 >"$folder/table" 2>"$folder/errors" || code=$?
[ "$code" -eq 3 ] || fail "exit $code instead of 3 for more memory than there is"
printf 'ok: flags\n'

code=0
"$bench" --rounds 0 >"$folder/table" 2>"$folder/errors" || code=$?
[ "$code" -eq 2 ] || fail "exit $code instead of 2 without rounds"
code=0
"$bench" --json "$folder/none/record.json" >"$folder/table" 2>"$folder/errors" || code=$?
[ "$code" -eq 2 ] || fail "exit $code instead of 2 for a record that cannot be written"
grep -q 'could not be written' "$folder/errors" || fail "unclear error: $(cat "$folder/errors")"
printf 'ok: exit codes\n'
