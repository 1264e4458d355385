#!/bin/sh
# releases_test.sh ENVIRONMENT FOLDER    the releases with a public defect, installed from PyPI
#
# ENVIRONMENT is where the tests install zproof. Exit 77, which CTest reports as skipped, without torch or PyPI.
# ZP_RELEASES names a folder that keeps the releases, some 6 GB; otherwise they are removed.
set -eu
environment=$1 examples=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PYTHONDONTWRITEBYTECODE=1
# shellcheck source=SCRIPTDIR/torch_python.sh disable=SC1091
. "${0%/*}/torch_python.sh"

code=0
"$python" "$examples/judge_releases.py" --environments "${ZP_RELEASES:-$folder/releases}" --recordings "$folder/recordings" ||
  code=$?
if [ "$code" = 3 ]; then
  printf 'SKIPPED: a release cannot be installed from PyPI\n'
  exit 77
fi
exit "$code"
