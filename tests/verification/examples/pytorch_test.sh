#!/bin/sh
# pytorch_test.sh ENVIRONMENT FOLDER PROGRAM    the PyTorch examples, correct and wrong
#
# ENVIRONMENT is where the tests install zproof. Its Python is used if it has torch too, else ZP_PYTHON (python3) with
# that package on its path. Exit 77, which CTest reports as skipped, where no Python has both.
set -eu
environment=$1 examples=$2 program=$3
fail() { printf 'FAILED: %s\n' "$1"; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PYTHONDONTWRITEBYTECODE=1 CUDA_VISIBLE_DEVICES=

# shellcheck source=SCRIPTDIR/torch_python.sh disable=SC1091
. "${0%/*}/torch_python.sh"

"$python" "$examples/adamw.py" >"$folder/said" 2>&1 || fail "it does not pass: $(cat "$folder/said")"
[ "$(grep -c '^1 pass, 0 fail' "$folder/said")" = 2 ] || fail "not two verdicts: $(cat "$folder/said")"
printf 'ok: right\n'
code=0
"$python" "$examples/adamw.py" --wrong >"$folder/said" 2>&1 || code=$?
[ "$code" = 1 ] || fail "--wrong: exit $code: $(cat "$folder/said")"
for part in 'master\[0\] differs from the reference' 'master\[0\] differs from torch-cpu-fused' 'in no legal order'; do
  grep -q "$part" "$folder/said" || fail "--wrong does not print '$part': $(cat "$folder/said")"
done
printf 'ok: wrong\n'

# skipped among the tests of the package, whose environment has no torch
for test in judge_optimizer run_recorder deepspeed_recorder; do
  "$python" "${0%/*}/../interfaces/python/${test}_test.py" >"$folder/said" 2>&1 || fail "$(cat "$folder/said")"
  printf 'ok: %s\n' "$test"
done

"$python" "$examples/optimizers.py" >"$folder/said" 2>&1 || fail "PyTorch's optimizers: $(cat "$folder/said")"
known='(AdamW|Adam|SGD) +(single|foreach|fused) '
[ "$(grep -cE "^$known +torch-[a-z-]+ +[0-9,]{7,} +0  |^note: ${known}was not judged: its root" "$folder/said")" = 9 ] ||
  fail "not nine optimizers without a difference: $(cat "$folder/said")"
printf 'ok: optimizers\n'
code=0
"$python" "$examples/optimizers.py" --dialect contract >"$folder/said" 2>&1 || code=$?
[ "$code" = 1 ] || fail "optimizers --dialect contract: exit $code: $(cat "$folder/said")"
[ "$(grep -cE ' contract +[0-9,]{7,} +[0-9,]{7,} ' "$folder/said")" = 9 ] || fail "not nine other orders: $(cat "$folder/said")"
printf 'ok: optimizers are not the contract\n'

step() { # step NAME [FLAG]: records a step on two ranks, identifies it, prints the exit code
  OMP_NUM_THREADS=1 "$python" -m torch.distributed.run --nproc-per-node 2 "$examples/record_step.py" "$folder/$1" ${2:+"$2"} \
    >"$folder/said" 2>&1 || fail "record_step.py $1: $(cat "$folder/said")"
  "$program" identify "$folder/$1"/*.safetensors >"$folder/said" && echo 0 || echo $?
}
[ "$(step steps)" = 0 ] || fail "identify: $(cat "$folder/said")"
[ "$(grep -cE 'rank[01]-group[01].safetensors: .*torch-cpu-single' "$folder/said")" = 4 ] || fail "not four files: $(cat "$folder/said")"
[ "$(step wrong --wrong)" = 1 ] || fail "identify of a wrong step: $(cat "$folder/said")"
[ "$(grep -c 'group0.safetensors: wrong: as if the weight decay came after the step' "$folder/said")" = 2 ] ||
  fail "the mistake is not named: $(cat "$folder/said")"
printf 'ok: a step of two ranks and param groups\n'

run() { # run NAME ARG...: trains on two ranks and records it
  name=$1
  shift
  OMP_NUM_THREADS=1 "$python" -m torch.distributed.run --standalone --nproc-per-node 2 "$examples/record_run.py" \
    "$folder/$name" "$@" >"$folder/said" 2>&1 || fail "record_run.py $name: $(cat "$folder/said")"
}
judged() { # judged NAME: prints the exit code
  "$program" judge-run "$folder/$1" >"$folder/said" 2>&1 && echo 0 || echo $?
}
for framework in ddp fsdp zero; do
  run "$framework" --framework "$framework" --resume
  [ "$(judged "$framework")" = 0 ] || fail "judge-run of $framework: $(cat "$folder/said")"
done
printf 'ok: runs with DDP, FSDP2 and ZeroRedundancyOptimizer\n'
run mistakes --wrong all
found=0
while read -r name phase; do
  [ "$(judged "mistakes/$name")" = 1 ] || fail "judge-run of $name: $(cat "$folder/said")"
  grep -q "^FAIL judge-run/$phase/" "$folder/said" || fail "$name is not found in phase $phase: $(cat "$folder/said")"
  found=$((found + 1))
done <<EOF
local-norm clip
scaled-twice reduce
mean-forgotten reduce
micro-batch-lost reduce
not-reduced reduce
skipped-on-one-rank overflow
overflow-applied overflow
scale-kept clip
clipped-twice clip
decay-last update
rate-of-first-group update
stale-shard cast
moment-dropped state
count-dropped update
EOF
[ "$(find "$folder/mistakes" -mindepth 1 -maxdepth 1 | wc -l)" = "$found" ] || fail "not $found mistakes: $(ls "$folder/mistakes")"
printf 'ok: %s mistakes in runs, each in its phase\n' "$found"

# the programs of the page
"$python" - "$examples/README.md" "$folder" <<'EOF'
import pathlib, re, sys
for number, text in enumerate(re.findall(r"^```python\n(.*?)^```$", pathlib.Path(sys.argv[1]).read_text(), re.M | re.S)):
    assert text.count("\n") <= 12, text
    pathlib.Path(sys.argv[2], f"page{number}").mkdir()
    pathlib.Path(sys.argv[2], f"page{number}", "train.py").write_text(text)
EOF
ran=0
for page in "$folder"/page*; do
  if grep -q '^import deepspeed' "$page/train.py" && ! "$python" -c 'import deepspeed' >/dev/null 2>&1; then
    printf 'SKIPPED: the page with DeepSpeed, which is not installed\n'
    continue
  fi
  (cd "$page" && DS_ACCELERATOR=cpu OMP_NUM_THREADS=1 "$python" -m torch.distributed.run --standalone --nproc-per-node 2 \
    train.py >said 2>&1) || fail "$(cat "$page/train.py" "$page/said")"
  [ "$(judged "${page##*/}/recording")" = 0 ] || fail "$(cat "$page/train.py" "$folder/said")"
  ran=$((ran + 1))
done
[ "$ran" -ge 3 ] || fail "$ran programs of the page"
printf 'ok: %s programs of the page\n' "$ran"
