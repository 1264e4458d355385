#!/bin/sh
# mpi_signal_test.sh SAID... -- MPIEXEC ARGUMENT...: an MPI job in which a rank gets a signal. Every SAID is a regular
# expression (of grep -E) that a line of the other ranks must match.
#
# Such a job always fails, and the launcher's own exit code is not checked: Open MPI 4.1 with PMIx 4.2 can itself end by
# SIGSEGV once all ranks are gone (a race in its PMIx_server_finalize). So only the ranks' output decides; a job that
# ends with exit status 0 is an error too.
set -u
output=$(mktemp) || exit 1
trap 'rm -f "$output" "$output.said"' EXIT
: >"$output.said"
while [ "$1" != -- ]; do
  printf '%s\n' "$1" >>"$output.said"
  shift
done
shift
"$@" >"$output" 2>&1
status=$?
cat "$output"
echo "the launcher ended with exit status $status"
failed=0
if [ "$status" = 0 ]; then
  echo "FAILED: the launcher's exit status is 0, though a rank got a signal"
  failed=1
fi
if grep 'FAILED to name' "$output"; then failed=1; fi
while IFS= read -r said; do
  grep -Eq -e "$said" "$output" || { echo "FAILED: no rank said '$said'" && failed=1; }
done <"$output.said"
exit "$failed"
