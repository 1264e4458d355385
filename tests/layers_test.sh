#!/bin/sh
# layers_test.sh COMPILER LAYER ROOT      an include against the arrows must end with "No such file"
# layers_test.sh --foreign SOURCE_DIR     libraries must stay in the layers that may use them
set -eu
fail() { printf 'FAILED: %s\n' "$1"; exit 1; }

if [ "$1" = --foreign ]; then
  cd "$2"
  # grep PATTERN outside the folders that may include it
  only() {
    found=$(grep -rnE "#include *[<\"]($1)" --include='*.hpp' --include='*.cpp' --include='*.cu' --include='*.cuh' \
      common reference cuda verification | grep -vE "^($2)" || true)
    [ -z "$found" ] || fail "$1 is included where it does not belong: $found"
    printf 'ok: %s only in %s\n' "$1" "$2"
  }
  only 'Eigen/' 'reference/'
  only 'mpi\.h' 'common/comm/mpi_'
  only 'omp\.h' 'cuda/'
  only 'cuda_runtime|cuda\.h|nccl|cub/|thrust/' 'cuda/'
  found=$(grep -rlE '^ *#pragma omp' common reference verification || true)
  [ -z "$found" ] || fail "OpenMP outside cuda/: $found"
  printf 'ok: OpenMP only in cuda/\n'
  exit 0
fi

compiler=$1 layer=$2 root=$3
# What each layer must not see, and one header of its own that it must.
case $layer in
  common) forbidden='reference/adam.hpp cuda/host/adam.hpp verification/case.hpp' own=common/base/error.hpp ;;
  reference) forbidden='cuda/host/adam.hpp verification/case.hpp' own=reference/adam.hpp ;;
  cuda) forbidden='reference/adam.hpp verification/case.hpp' own=cuda/host/adam.hpp ;;
  *) fail "unknown layer $layer" ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
compile() {
  printf '#include "%s"\n' "$1" >"$folder/one.cpp"
  "$compiler" -std=c++20 -fsyntax-only -I"$root" "$folder/one.cpp" 2>"$folder/errors"
}
compile "$own" || fail "$layer cannot include $own: $(cat "$folder/errors")"
printf 'ok: %s sees %s\n' "$layer" "$own"
for header in $forbidden; do
  if compile "$header"; then fail "$layer can include $header"; fi
  grep -q 'No such file\|file not found' "$folder/errors" || fail "unexpected error: $(cat "$folder/errors")"
  printf 'ok: %s cannot include %s\n' "$layer" "$header"
done
