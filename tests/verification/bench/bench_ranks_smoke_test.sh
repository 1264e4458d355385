#!/bin/sh
# bench_ranks_smoke_test.sh [PROGRAM]     zeroproof-bench-ranks on little memory: bits, bounds, rows, record, exit codes.
# Speed is not judged: tests share their machine. Without a program (no MPI) it is skipped.
set -eu
fail() { printf 'FAILED: %s\n' "$1"; exit 1; }

if [ "$#" -eq 0 ]; then
  printf 'SKIPPED: this build has no MPI, so ranks of one machine are not measured; install libopenmpi-dev and openmpi-bin\n'
  exit 77
fi
bench=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Odd numbers of ranks cut shards elsewhere and leave some ranks two nodes.
for ranks in 2 3; do
  "$bench" --mib 1 --rounds 1 --ranks $ranks --malloc installed --json "$folder/record.json" >"$folder/table" ||
    fail "exit $? of a good run on $ranks ranks: $(cat "$folder/table")"
  [ "$(grep -c '^same ' "$folder/table")" -eq 8 ] || fail "not everything was compared: $(cat "$folder/table")"
  grep -q "^$ranks ranks on this machine" "$folder/table" || fail "the job has another size"
done
for row in 'product, messages' 'product, windows ' 'product, windows, leaf there' 'product, one copy ' \
  'product, one copy, M = 2 R + 1' 'library scatter + gather' 'library all-reduce' 'limit memcpy' 'limit window pass' 'two fences' 'MPI_Barrier'; do
  grep -q "^$row" "$folder/table" || fail "no row '$row'"
done
grep -q '^product, one copy, against library .*goal >= 4.0x' "$folder/table" || fail "the goal is not judged"
grep -q '^product, messages, against library ' "$folder/table" || fail "the product is not compared"
grep -q '^malloc as installed$' "$folder/table" || fail "malloc is not named: $(cat "$folder/table")"
awk 'length > 100 { exit 1 }' "$folder/table" || fail "the table is wider than 100 columns"
grep -q '"schema": "zeroproof-bench-ranks/2"' "$folder/record.json" || fail "the record does not name its schema"
printf 'ok: small runs\n'

"$bench" --mib 1 --rounds 1 --ranks 1,2 --malloc installed --json "$folder/both" >"$folder/table" || fail "exit $? of two jobs"
grep -q '"ranks": 1,' "$folder/both.1" || fail "no record of the first job"
grep -q '"ranks": 2,' "$folder/both.2" || fail "no record of the second job"
printf 'ok: two jobs\n'

"$bench" --mib 1 --rounds 1 --ranks 2 --json "$folder/both" >"$folder/table" || fail "exit $? of both settings of malloc"
grep -q '"warm": false' "$folder/both.installed" || fail "no record with malloc as installed"
grep -q '"warm": true' "$folder/both.warm" || fail "no record with warm malloc"
grep -q '^malloc warm: .*MALLOC_MMAP_MAX_=0' "$folder/table" || fail "the warm job does not say what malloc was told"
grep -q '^product, one copy, against library .*goal >= 2.0x' "$folder/table" || fail "the warm job has the other goal"
"$bench" --mib 1 --rounds 1 --ranks 1,2 --json "$folder/four" >"$folder/table" || fail "exit $? of four jobs"
for record in 1.installed 1.warm 2.installed 2.warm; do
  [ -s "$folder/four.$record" ] || fail "no record $record"
done
printf 'ok: two settings of malloc\n'

code=0
"$bench" --rounds 0 >"$folder/table" 2>"$folder/errors" || code=$?
[ "$code" -eq 2 ] || fail "exit $code instead of 2 without rounds"
code=0
"$bench" --mib 1 --rounds 1 --ranks 2 --malloc cold >"$folder/table" 2>&1 || code=$?
[ "$code" -eq 2 ] || fail "exit $code instead of 2 for an unknown setting of malloc"
code=0
"$bench" --mib 1 --rounds 1 --ranks 2 --malloc warm --json "$folder/none/record.json" >"$folder/table" 2>&1 || code=$?
[ "$code" -eq 2 ] || fail "exit $code instead of 2 for a record that cannot be written"
grep -q 'could not be written' "$folder/table" || fail "unclear error: $(cat "$folder/table")"
printf 'ok: exit codes\n'
