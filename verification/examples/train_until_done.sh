#!/bin/sh
# train_until_done.sh RANKS WORDS...      zeroproof train WORDS on MPI ranks, and on one fewer after each loss of a rank
#
# No bit depends on the losses. Anything else that ends the run (Ctrl-C, a full disk, a damaged checkpoint) ends
# this script too, with the same exit code. ZEROPROOF names the program.
set -u
program=${ZEROPROOF:-build/zeroproof}
ranks=$1
shift
until "$program" train --world mpi:"$ranks" --resume "$@"; do
  code=$?
  case $code in
    5 | 6) ;; # a rank hung, or was lost
    *) exit "$code" ;;
  esac
  [ "$ranks" -gt 1 ] || exit "$code"
  ranks=$((ranks - 1))
done
