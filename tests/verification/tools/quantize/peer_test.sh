#!/bin/sh
# peer_test.sh PYTHON TEST.py TOOL    by the interpreter of ZP_PYTHON, which may have the library that the test looks for,
# or else by PYTHON
set -eu
python=${ZP_PYTHON:-$1}
shift
export PYTHONDONTWRITEBYTECODE=1
exec "$python" "$@"
