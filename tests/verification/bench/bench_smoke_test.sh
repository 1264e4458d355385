#!/bin/sh
# bench_smoke_test.sh PROGRAM     zeroproof-bench on little memory: bits, width of the table, record, exit codes.
# Speed is not judged: tests share their machine.
set -eu
fail() { printf 'FAILED: %s\n' "$1"; exit 1; }

bench=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$bench" --mib 2 --rounds 2 --json "$folder/record.json" >"$folder/table" || fail "exit $? of a good run"
[ "$(grep -c '^same ' "$folder/table")" -eq 6 ] || fail "not all bits were compared: $(cat "$folder/table")"
for row in adamw unscale add_nodes norm clip 'cast to bf16' 'cast to fp16' 'fused step' 'seven passes' 'limit 4R3W'; do
  grep -q "^$row " "$folder/table" || fail "no row '$row'"
done
awk 'length > 100 { exit 1 }' "$folder/table" || fail "the table is wider than 100 columns"
grep -q '"schema": "zeroproof-bench/1"' "$folder/record.json" || fail "the record does not name its schema"
printf 'ok: a small run\n'

"$bench" --mib 2 --rounds 1 --threads 1 >"$folder/table" || fail "exit $? with one thread"
printf 'ok: one thread\n'

code=0
"$bench" --rounds 0 >"$folder/table" 2>"$folder/errors" || code=$?
[ "$code" -eq 2 ] || fail "exit $code instead of 2 without rounds"
code=0
"$bench" --json "$folder/none/record.json" >"$folder/table" 2>"$folder/errors" || code=$?
[ "$code" -eq 2 ] || fail "exit $code instead of 2 for a record that cannot be written"
grep -q 'could not be written' "$folder/errors" || fail "unclear error: $(cat "$folder/errors")"
printf 'ok: exit codes\n'
