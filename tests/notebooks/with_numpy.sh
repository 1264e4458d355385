#!/bin/sh
# with_numpy.sh SCRIPT ARGUMENT...    runs a Python script with an interpreter that has numpy and
# matplotlib: $ZP_PYTHON, python3, or /usr/bin/python3. Exits with 77 if none has them.
set -eu
for python in ${ZP_PYTHON:+"$ZP_PYTHON"} python3 /usr/bin/python3; do
  if "$python" -c 'import matplotlib, numpy' >/dev/null 2>&1; then exec "$python" "$@"; fi
done
echo 'skipped: no python3 with numpy and matplotlib; install python3-numpy python3-matplotlib'
exit 77
