#!/bin/sh
# narrow_types_test.sh CXX CUDA_INCLUDE_DIR SOURCE_DIR
# Compares the 16-bit numbers of the simulated device with those of CUDA's headers, on the host.
set -eu
compiler=$1 cuda=$2 source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
file=$source/tests/verification/interfaces/plugin/narrow_types.cpp
compile() { "$compiler" -std=gnu++17 -O1 -ffp-contract=off "$@"; }
compile -DSIDE=ours -I "$source/verification/interfaces/capi" -c "$file" -o "$work/ours.o"
compile -DSIDE=cudas -DOF_CUDA -isystem "$cuda" -c "$file" -o "$work/cudas.o"
compile "$file" "$work/ours.o" "$work/cudas.o" -o "$work/compare"
"$work/compare"
