#!/bin/sh
# with_numpy.sh SCRIPT ARGUMENT...    runs a Python script with an interpreter that has numpy and matplotlib: the one
# that ZP_PYTHON names, python3, or the system's, which has the packages of the distribution. 77 if none has them.
set -eu
for python in ${ZP_PYTHON:+"$ZP_PYTHON"} python3 /usr/bin/python3; do
  if "$python" -c 'import matplotlib, numpy' >/dev/null 2>&1; then exec "$python" "$@"; fi
done
echo 'skipped: no python3 here has numpy and matplotlib (lessons plot); install python3-numpy python3-matplotlib'
exit 77
