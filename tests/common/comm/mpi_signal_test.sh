#!/bin/sh
# mpi_signal_test.sh MPIEXEC ARGUMENT...: an MPI job in which a rank gets a signal.
#
# Such a job always fails, and what the launcher makes of it is no finding: Open MPI 4.1 with PMIx 4.2 can itself end by
# SIGSEGV once all ranks are gone (a race in its PMIx_server_finalize). So the ranks' own words decide, which the
# caller looks for in the output; here only a job that ends as if nothing had happened is an error.
set -u
"$@"
status=$?
if [ "$status" = 0 ]; then
  echo "FAILED: the launcher's exit status is 0, though a rank got a signal"
  exit 1
fi
echo "the launcher ended with exit status $status"
