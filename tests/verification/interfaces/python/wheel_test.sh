#!/bin/sh
# wheel_test.sh PYTHON SOURCE_DIR    the steps of a new user: pip wheel with an isolated build environment, and the wheel
# in an empty environment with numpy alone, away from the checkout. 77 if no package index is reachable.
set -eu
python=$1 source=$2 tests=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
fail() { printf 'FAILED: %s\n' "$1"; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/env" || { echo 'skipped: no virtual environments (python3-venv)'; exit 77; }
pip="$folder/env/bin/pip -q --disable-pip-version-check"
$pip download --no-deps -d "$folder/index" scikit-build-core || { echo 'skipped: no package index can be reached'; exit 77; }
$pip wheel --no-deps -w "$folder/wheels" "$source/verification/interfaces/python"
set -- "$folder"/wheels/zproof-*.whl
[ -f "$1" ] && [ $# = 1 ] || fail "pip wheel left $*"
$pip install "$1"
[ "$($pip freeze | sed 's/[=@ ].*//' | tr '\n' ' ')" = 'numpy zproof ' ] || fail "it depends on $($pip freeze)"
"$folder/env/bin/python" -m zipfile -l "$1" >"$folder/list"
for file in __init__.py _zproof.pyi py.typed; do
  grep -q "^zproof/$file " "$folder/list" || fail "the wheel has no $file"
done
if grep -vE '^(zproof/|zproof-[0-9.]*\.dist-info/|File Name)' "$folder/list"; then fail 'the wheel has foreign files'; fi
cp "$source/verification/examples/python/adamw.py" "$folder"
cd "$folder"
export PYTHONDONTWRITEBYTECODE=1
env/bin/python -m zproof verify adamw:adamw_step --op adamw | grep '7 pass, 0 fail' || fail 'the example does not pass'
for test in reference judge step; do env/bin/python "$tests/${test}_test.py"; done
