#!/bin/sh
# in_environment.sh ENVIRONMENT TEST.py         runs a unittest file by the Python of the environment
# in_environment.sh ENVIRONMENT PROGRAM ARG...  runs a program
# 77 where the package is not installed.
set -eu
environment=$1
shift
if ! "$environment/bin/python" -c 'import zproof' 2>/dev/null; then
  echo 'skipped: the package zproof is not installed here (python/environment says why)'
  exit 77
fi
export PYTHONDONTWRITEBYTECODE=1
case $1 in
  *.py) exec "$environment/bin/python" "$@" -v ;;
  *) exec "$@" ;;
esac
