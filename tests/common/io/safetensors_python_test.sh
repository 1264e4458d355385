#!/bin/sh
# safetensors_python_test.sh TOOL SCRIPT [ARGUMENT...]: the format compared with the Python library, where there is one.
# ZP_PYTHON names the interpreter (default python3). Exit 77, which CTest reports as skipped, without the library.
set -eu
tool=$1 script=$2
shift 2
python=${ZP_PYTHON:-python3}
if ! reason=$("$python" -c 'import safetensors, numpy' 2>&1); then
  printf 'SKIPPED: %s cannot import safetensors and numpy (%s); set ZP_PYTHON to an interpreter that can\n' \
    "$python" "$(printf '%s\n' "$reason" | tail -n 1)"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" "$script" "$tool" "$folder" "$@"
