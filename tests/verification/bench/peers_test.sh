#!/bin/sh
# peers_test.sh FOLDER     peers.py, in this folder, without PyTorch and without a network: that it compiles, its
# self-check, its errors. Nothing is installed or timed.
set -eu
fail() { printf 'FAILED: %s\n' "$1"; exit 1; }

if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
  printf 'SKIPPED: there is no python3 of 3.9 or later, which peers.py needs; install python3\n'
  exit 77
fi
bench=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
PYTHONPYCACHEPREFIX=$folder/cache
export PYTHONPYCACHEPREFIX

python3 -m py_compile "$bench/peers.py" "$bench"/peer/*.py || fail "it does not compile"
python3 "$bench/peers.py" --self-check >"$folder/said" 2>&1 || fail "the self-check: $(cat "$folder/said")"
[ "$(grep -c '^ok: ' "$folder/said")" -eq 7 ] || fail "not everything was checked: $(cat "$folder/said")"
printf 'ok: self-check\n'

python3 "$bench/peers.py" --help >"$folder/said" || fail "no help"
for flag in --numel --rounds --peers --json --venv --self-check; do
  grep -q -- "$flag" "$folder/said" || fail "the help has no $flag"
done

# refused CODE TEXT FLAGS...: this exit code, and one sentence on stderr with this text.
refused() {
  wanted=$1 text=$2
  shift 2
  code=0
  python3 "$bench/peers.py" "$@" >"$folder/said" 2>"$folder/errors" || code=$?
  [ "$code" -eq "$wanted" ] || fail "exit $code instead of $wanted of $*: $(cat "$folder/errors")"
  [ "$(grep -vc '^peers: ' "$folder/errors")" -eq 1 ] || fail "not one sentence: $(cat "$folder/errors")"
  grep -qF "$text" "$folder/errors" || fail "unclear error: $(cat "$folder/errors")"
}
refused 2 "there is no peer 'jax'" --peers jax
refused 2 'the command line was not understood' --numel many
refused 3 'zeroproof-bench is not there' --build "$folder"

# The programs, but no PyTorch and no package index.
mkdir -p "$folder/venv/bin"
printf '#!/bin/sh\n' >"$folder/zeroproof-bench"
printf '#!/bin/sh\necho "ERROR: No matching distribution found for torch"\nexit 1\n' >"$folder/venv/bin/python"
chmod +x "$folder/zeroproof-bench" "$folder/venv/bin/python"
refused 3 'PyTorch is not here and pip could not install torch==' --build "$folder" --venv "$folder/venv" --peers torch-fused
refused 2 'cannot be written' --build "$folder" --peers torch-fused --json "$folder/none/record.json"
printf 'ok: errors\n'

# Our program fails: its last line is printed.
printf '#!/bin/sh\nexit 0\n' >"$folder/venv/bin/python"
printf '#!/bin/sh\necho "zeroproof-bench: it is broken" >&2\nexit 9\n' >"$folder/zeroproof-bench"
refused 3 'zeroproof-bench ended with 9: zeroproof-bench: it is broken' --build "$folder" --venv "$folder/venv" \
  --peers torch-fused --tensors 1
printf 'ok: what our programs say\n'
