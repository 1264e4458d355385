#!/bin/sh
# bench_smoke_test.sh PROGRAM SIMULATED FOLDER    every subcommand of zeroproof-bench at small sizes: rows, bits, width of
# the table, record, exit codes; `device` with the simulated device; torch_peer.py in FOLDER without PyTorch. Speed is
# not judged: tests share their machine.
set -eu
fail() { printf 'FAILED: %s\n' "$1"; exit 1; }

bench=$1 sim=$2 peer=$3/torch_peer.py
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# measured NAME CHECKS PROGRAM FLAGS...: exit 0, this number of lines about bits, and a table of at most 100 columns.
measured() {
  name=$1 checks=$2
  shift 2
  "$@" --json "$folder/record.json" >"$folder/table" 2>"$folder/errors" ||
    fail "exit $? of $*: $(cat "$folder/errors" "$folder/table")"
  [ "$(grep -c '^same ' "$folder/table")" -eq "$checks" ] || fail "$name: not all bits were compared: $(cat "$folder/table")"
  awk 'length > 100 { exit 1 }' "$folder/table" || fail "$name: wider than 100 columns: $(cat "$folder/table")"
  printf 'ok: %s\n' "$name"
}
rows() { # TEXT...: lines of the table begin with these
  for row in "$@"; do grep -q "^$row" "$folder/table" || fail "no row '$row': $(cat "$folder/table")"; done
}
entries() { # COUNT KEY: in the record
  [ "$(grep -c "\"$2\"" "$folder/record.json")" -eq "$1" ] || fail "the record has not $1 times $2"
}
# refused CODE TEXT COMMAND...: this exit code, and one sentence.
refused() {
  wanted=$1 text=$2 code=0
  shift 2
  "$@" >"$folder/table" 2>"$folder/errors" || code=$?
  [ "$code" -eq "$wanted" ] || fail "exit $code instead of $wanted of $*: $(cat "$folder/errors")"
  [ "$(wc -l <"$folder/errors")" -eq 1 ] || fail "not one line: $(cat "$folder/errors")"
  grep -qF -- "$text" "$folder/errors" || fail "unclear error: $(cat "$folder/errors")"
}

measured kernels 7 "$bench" kernels --mib 2 --rounds 2
rows 'adamw ' 'unscale ' 'add_nodes ' 'norm ' 'clip ' 'cast to bf16 ' 'sgd_ema ' 'fused step ' 'seven passes ' 'limit 4R3W ' \
  'limit W memset ' 'reference adamw, 1 thread ' 'fused step against seven passes .*goal >= 1.80' \
  'product 64x64x64 ' 'product 63x37x71 ' 'newton_schulz 71x29 ' 'newton_schulz 64x64, of .*goal >= 0.50'
grep -q '"schema": "zeroproof-bench/3"' "$folder/record.json" || fail "the record does not name its schema"
measured 'one thread' 7 "$bench" kernels --numel 16384 --rounds 1 --threads 1

# Odd sizes: tensors of 3 elements, the last chunk of each short.
measured product 3 "$bench" product --numel 30001 --rounds 2
rows 'same  product = contract: .* (12)$' 'same  product: an infinite gradient changes nothing (12)$' \
  'same  operations .* = contract (2)$' ' *1  *1  *0 fp32' ' *1  *10000  *0 fp32' ' *4  *69  *3 fp32' ' *16  *1  *0 bf16'
entries 12 step_to_implementations
measured 'one product row, saved' 2 "$bench" product --numel 5000 --rounds 1 --micro-batches 2 --tensors 3 --grads bf16 \
  --stages 2 --bucket 1024 --save "$folder/case.safetensors"
rows ' *2  *3  *2 bf16'
for tensor in leaf.0 leaf.1 first.exp_avg_sq param tensor_numel; do
  head -c 2000 "$folder/case.safetensors" | grep -aqF "\"$tensor\"" || fail "the saved case has no $tensor"
done

measured muon 2 "$bench" muon --rounds 1 --threads 2 --save "$folder/muon.safetensors"
rows 'step, factors bf16 ' 'step, factors fp32 ' 'newton_schulz 1024x1024, factors fp32 ' '192x768, rows fall to 0.001 ' \
  'same  production = reference after two steps: .* (2)$'
for tensor in first.exp_avg tensor_rows distant.5 exact.5; do
  head -c 4000 "$folder/muon.safetensors" | grep -aqF "\"$tensor\"" || fail "the saved case has no $tensor"
done
measured 'every choice of newton_schulz' 1 "$bench" muon --numel 1
rows 'cans scaled_product bf16 add rounds_first .* 0$' 'same  newton_schulz: host = reference (126)$'

measured sweep 1 "$bench" sweep --numel 8192 --rounds 1
rows 'parameters: ' 'tensors: ' 'micro-batches: ' 'buckets: ' 'ranks: ' 'same  product = contract along a sweep (5)'
entries 5 worst_residual

mkdir "$folder/saves" "$folder/state"
measured checkpoint 1 "$bench" checkpoint "$folder/saves" --numel 300001 --rounds 2 --ranks 1,3
rows 'same  a checkpoint = the state that was saved (2)$' ' *1  *3[0-9]* ' ' *3  *3[0-9]* '
entries 2 raw_to_save
measured offload 2 "$bench" offload "$folder/state" --numel 300001 --rounds 2
rows 'same  step with state elsewhere = contract (4)$' 'same  an infinite gradient changes nothing elsewhere (4)$' \
  'host  *0.500 ' 'host  *1.00 ' 'file  *0.500 ' 'file  *1.00 '
entries 4 step_to_floor
[ -z "$(ls -A "$folder/saves")$(ls -A "$folder/state")" ] || fail "something was left: $(ls -A "$folder"/s*)"

code=0
"$bench" ranks --mib 1 --rounds 1 --ranks 2 --malloc installed >"$folder/table" 2>"$folder/errors" || code=$?
if [ "$code" -eq 3 ] && grep -q 'built without MPI' "$folder/errors"; then
  printf 'ok: ranks say that there is no MPI\n'
else
  # Odd numbers of ranks have other shards and leave some ranks two nodes.
  for ranks in 2 3; do
    measured "$ranks ranks" 8 "$bench" ranks --mib 1 --rounds 1 --ranks $ranks --malloc installed
    rows "$ranks ranks on this machine" 'malloc as installed$'
  done
  rows 'product, messages ' 'product, windows ' 'product, windows, leaf there ' 'product, one copy ' \
    'product, one copy, M = 2 R + 1 ' 'library scatter + gather ' 'library all-reduce ' 'limit memcpy ' 'limit window pass ' \
    'two fences ' 'MPI_Barrier ' 'product, one copy, against library .*goal >= 4.00' 'fences, of the step'
  measured 'four jobs' 32 "$bench" ranks --mib 1 --rounds 1 --ranks 1,2
  rows 'malloc warm: .*MALLOC_MMAP_MAX_=0' 'product, one copy, against library .*goal >= 2.00'
  for record in 1.installed 1.warm 2.installed 2.warm; do
    [ -s "$folder/record.json.$record" ] || fail "no record $record"
  done
  grep -q '"warm": true' "$folder/record.json.2.warm" || fail "the record lacks the mark of a warm malloc"
  code=0
  "$bench" ranks --mib 1 --rounds 1 --ranks 2 --malloc warm --json "$folder/none/record.json" >"$folder/table" 2>&1 || code=$?
  [ "$code" -eq 2 ] || fail "exit $code instead of 2 for a record that cannot be written"
  grep -q 'could not be written' "$folder/table" || fail "unclear error: $(cat "$folder/table")"
fi

measured device 4 "$sim" device --numel 2048,17408 --small-numel 1024 --rank-numel 16384 --ranks 2 --rounds 2
rows 'limit R ' 'limit 4R3W+W2' 'limit 8xR2W4' finite_norm fused_update 'two passes, graph' 'fold of 8' 'step, 1 tensor' \
  'step, 300 tensors' 'step in phases, 1 tensor' 'step, host' 'reduce during the backward pass' 'finite_norm, of the read' \
  'two passes by a graph, of 34' '300 tensors, of one' 'step in phases, of' 'host time of an enqueued step' \
  'communication that overlap leaves exposed'
if grep -q 'met$\|missed$' "$folder/table"; then fail "times of a simulated device were judged"; fi
[ "$(grep -c elements "$folder/errors")" -eq 6 ] || fail "not every group was announced: $(cat "$folder/errors")"
grep -q '"simulated": true' "$folder/record.json" || fail "the record lacks the mark of a simulated device"
measured 'one group' 2 "$sim" device --rows small --small-numel 1024 --rounds 1
if grep -q '^finite_norm' "$folder/table"; then fail "rows that were not asked for"; fi
code=0
"$bench" device --rows small --rounds 1 >"$folder/table" 2>"$folder/errors" || code=$?
if [ "$code" -ne 0 ]; then
  [ "$code" -eq 3 ] || fail "exit $code of device where there is none: $(cat "$folder/errors")"
  grep -q 'no device answers\|built without CUDA' "$folder/errors" || fail "unclear error: $(cat "$folder/errors")"
fi

refused 2 'subcommand is required' "$bench"
refused 2 'was not understood' "$bench" product --ranks 2
refused 2 'was not understood' "$bench" kernels --rounds 0
refused 2 'was not understood' "$bench" kernels --mib 2 --numel 16384
refused 2 'was not understood' "$bench" ranks --malloc cold
refused 2 'no multiple of 1024' "$bench" product --bucket 1025
refused 2 'no multiple of 1024' "$sim" device --numel 1025
refused 2 'was not understood' "$sim" device --rows everything
refused 2 'work on blocks of 16384' "$bench" kernels --numel 1000
refused 2 '--save was given with 12 rows' "$bench" product --save case
refused 2 '5 parameters cannot be 9 tensors' "$bench" product --numel 5 --tensors 9
refused 3 'of memory' "$bench" product --numel 60000000000
refused 2 'could not be written' "$bench" kernels --json "$folder/none/record.json"
refused 2 'cannot be created' "$bench" checkpoint "$folder/none" --rounds 1 --numel 5000
refused 2 'folder' "$bench" offload "$folder/none" --rounds 1 --numel 5000
printf 'ok: flags and exit codes\n'

if python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
  PYTHONPYCACHEPREFIX=$folder/cache python3 -m py_compile "$peer" || fail "torch_peer.py does not compile"
  refused 2 'was not understood' python3 -B "$peer" --numel many
  # Without PyTorch: a module of that name that cannot be imported.
  mkdir "$folder/torch" && echo 'raise ImportError("no torch in this test")' >"$folder/torch/__init__.py"
  PYTHONPATH=$folder refused 3 'nothing was measured' python3 -B "$peer" --json "$folder/peer.json"
  grep -q '"not_measured": ".*no torch in this test' "$folder/peer.json" || fail "the peer's record has no reason"
  printf 'ok: the peer says why it does not run\n'
fi
