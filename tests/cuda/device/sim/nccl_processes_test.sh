#!/bin/sh
# nccl_processes_test.sh ZEROPROOF_SIM   worlds nccl:N on simulated devices, with the fake library that ZP_NCCL_LIBRARY
# names: its ranks are threads of one process, so one process runs, and two end with an error that names the cause.
set -eu
program=$1
cases="byte_gpt_tiny/adamw/device-graph/*"
out=$(mktemp)
trap 'rm -f "$out"' EXIT
fail() { printf 'FAILED: %s\n' "$1"; cat "$out"; exit 1; }
run() {  # EXIT TEXT FLAGS...
  expected=$1 text=$2
  shift 2
  status=0
  timeout 120 "$program" verify "$cases" --impl device-graph --dtype bf16 --comm-timeout 5 "$@" >"$out" 2>&1 || status=$?
  [ "$status" = "$expected" ] || fail "$* ended with $status and not $expected"
  grep -q "$text" "$out" || fail "$* did not print '$text'"
  printf 'ok: %s: %s\n' "$*" "$text"
}
ZP_TEST_MARK=$out
export ZP_TEST_MARK
run 0 '^4 pass, 0 fail' --world nccl:1 --stage 0,1,2,3
run 9 'rank 1 ended: rank 1 could not join nccl:2' --world nccl:2 --stage 1
for process in /proc/[0-9]*; do
  [ "$process" != "/proc/$$" ] || continue
  if tr '\0' '\n' 2>/dev/null <"$process/environ" | grep -q "^ZP_TEST_MARK=$out\$" &&
    readlink "$process/exe" 2>/dev/null | grep -q zeroproof; then
    fail "process ${process#/proc/} is still running"
  fi
done
run 3 '3 ranks, 2 devices' --world nccl:3 --stage 1
export ZP_FAKE_NCCL=ranks_per_device=1  # with two simulated devices
run 0 '^1 pass, 0 fail' --world threads:2 --transport nccl --stage 1
run 3 'could not join nccl:3 (NCCL says: invalid usage: Duplicate GPU' --world threads:3 --transport nccl --stage 1
unset ZP_FAKE_NCCL
export ZP_NCCL_LIBRARY=/nowhere/libnccl.so.2
run 3 'NCCL could not be loaded from /nowhere' --world nccl:1 --stage 1
