#!/bin/sh
# environment.sh PYTHON SOURCE_DIR BUILD_DIR    the package zproof, installed for the tests of this build
#
# BUILD_DIR/python-env is a virtual environment that is kept: the first time it needs a package index (77 without it) and
# a minute of compiling, later only changed sources are compiled (in BUILD_DIR/package).
set -eu
python=$1 source=$2 build=$3
env=$build/python-env
tools='scikit-build-core>=0.10 numpy ml_dtypes pytest safetensors'
skip() { printf 'skipped: %s\n' "$1"; exit 77; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || skip "$python is not Python 3.10 or later"
"$python" -c 'import sysconfig, os, sys
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
  skip "the headers of $python are not here (python3-dev)"
if [ "$(cat "$env/complete" 2>/dev/null)" != "$tools" ]; then
  rm -rf "$env"
  "$python" -m venv "$env" || skip "$python cannot make virtual environments (python3-venv)"
  # shellcheck disable=SC2086  # words
  "$env/bin/pip" -q --disable-pip-version-check install $tools || skip 'no package index can be reached'
  printf '%s\n' "$tools" >"$env/complete"
fi
# The command of the documents, without downloads: the build tools are already in the environment.
"$env/bin/pip" -q --disable-pip-version-check install --no-build-isolation --no-deps --force-reinstall \
  -C "cmake.define.ZPROOF_BUILD_TREE=$build" -C build.targets=_zproof -C build-dir="$build/package" "$source"
"$env/bin/python" -c 'import zproof; print("zproof", zproof.__version__)'
