#!/bin/sh
# newcomer.sh cpp|python [--no-packages]    time of a new user's first verdict, from a clone with nothing built
#
# cpp: packages, cmake, the target zeroproof, a plug-in in C++, its verdict. python: packages, pip install of zproof and
# of torch, the verdict of a PyTorch function. In a clone of this checkout in a temporary folder (TMPDIR), without a
# compiler cache; uncommitted changes are not in it. --no-packages leaves out apt-get. Exit status: 0, 2 a bad word, or
# that of the step that failed.
set -eu
path=${1:-} packages=yes
case $path in cpp | python) ;; *)
  printf "newcomer.sh: '%s' is no path (there is nothing to time); give cpp or python\n" "$path" >&2
  exit 2 ;;
esac
case ${2:-} in
  '') ;;
  --no-packages) packages=no ;;
  *)
    printf "newcomer.sh: '%s' is not known (nothing was timed); leave it out, or give --no-packages\n" "$2" >&2
    exit 2 ;;
esac
case $0 in */*) root=${0%/*}/../.. ;; *) root=../.. ;; esac
root=$(CDPATH='' cd -- "$root" && pwd -P)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
export CCACHE_DISABLE=1
all=0
step() { # what, command...: runs it and prints its duration
  what=$1 begin=$(date +%s)
  shift
  "$@" >"$folder/said" 2>&1 || {
    code=$?
    tail -n 20 "$folder/said" >&2
    printf "newcomer.sh: '%s' failed (later steps cannot be timed); its last lines are above\n" "$what" >&2
    exit "$code"
  }
  took=$(($(date +%s) - begin))
  all=$((all + took))
  printf '%5d s  %s\n' "$took" "$what"
}
verdict() { sed -n 's/^[0-9]* pass, .*/         &/p' "$folder/said"; }

if [ "$packages" = yes ]; then
  step 'package lists' apt-get update
  step 'packages' apt-get install -y --no-install-recommends g++ cmake ninja-build libeigen3-dev libcli11-dev \
    nlohmann-json3-dev libtomlplusplus-dev libxxhash-dev libfmt-dev libyaml-cpp-dev
  [ "$path" = cpp ] || step 'packages for Python' apt-get install -y --no-install-recommends python3-dev python3-venv
fi
step 'clone' git clone -q "$root" "$folder/zeroproof"
cd "$folder/zeroproof"
if [ "$path" = cpp ]; then
  step 'configure' cmake -S . -B build -G Ninja -DZP_TESTS=OFF -DZP_MPI=OFF -DZP_CUDA=OFF
  step 'build the target zeroproof' cmake --build build --target zeroproof
  step 'compile the plug-in' c++ -std=c++20 -O2 -ffp-contract=off -shared -fPIC -I verification/interfaces/capi \
    verification/examples/plugin_cpp/adamw.cpp -o libmine.so
  step 'verdict of the plug-in' build/zeroproof verify adamw_update --plugin ./libmine.so
else
  step 'virtual environment' python3 -m venv venv
  step 'pip install .' venv/bin/pip install .
  step 'pip install torch' venv/bin/pip install torch
  step 'verdict of the PyTorch function' venv/bin/python verification/examples/pytorch/adamw.py
fi
verdict
printf '%5d s  in all\n' "$all"
