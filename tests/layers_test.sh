#!/bin/sh
# layers_test.sh COMPILER LAYER ROOT      an include of a forbidden layer must fail with "No such file"
# layers_test.sh --foreign SOURCE_DIR     libraries must stay in the layers that may use them
# layers_test.sh --folders SOURCE_DIR     inside a layer, the folders must include each other in one direction only
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
  only 'mpi\.h' 'common/comm/mpi/|verification/bench/mpi_library'
  only 'omp\.h' 'cuda/'
  # headers that take seconds to compile are included by one source (benchmarks have their own)
  only 'CLI/' 'verification/cli/command_set\.cpp|verification/bench/'
  only 'toml\+\+' 'verification/cases/config/toml\.cpp'
  only 'nlohmann/' 'common/io/json\.cpp|common/io/safetensors/safetensors_sax\.hpp|verification/bench/'
  only 'fmt/' 'verification/report/format\.|verification/bench/'
  only 'Python\.h' 'verification/interfaces/python/src/extension/object\.hpp'
  only 'cub/' 'cuda/device/kernels/gradients/grad_stats\.cu|verification/bench/device/'
  only 'cuda_runtime|cuda\.h|nccl|thrust/' 'cuda/'
  found=$(grep -rlE '^ *#pragma omp' common reference verification || true)
  [ -z "$found" ] || fail "OpenMP outside cuda/: $found"
  printf 'ok: OpenMP only in cuda/\n'
  exit 0
fi

if [ "$1" = --folders ]; then
  cd "$2"
  # The implementations of an operation have the same folder name in reference, cuda/host and
  # cuda/device.
  find reference cuda/host cuda/device -type f | sort | awk -F/ '
    $(NF - 1) ~ /^(formats|gradients|update|layers)$/ {
      name = $NF; sub(/[.].*/, "", name); count[$(NF - 2)]++
      if (name in folder && folder[name] != $(NF - 1)) { print "FAILED: " first[name] " and " $0 " are in two folders"; bad = 1 }
      folder[name] = $(NF - 1); first[name] = $0
    }
    END {
      if (!count["reference"] || !count["host"] || !count["kernels"]) { print "FAILED: no folders of implementations"; bad = 1 }
      if (!bad) print "ok: implementations are in the same folders of reference, cuda/host and cuda/device"
      exit bad
    }' || exit 1
  # Exceptions from the direction, FROM TO, each with its reason.
  explained='
    cuda/device/runtime cuda/device/sim  # the simulator defines the CUDA language constructs
  '
  folders=$(mktemp)
  trap 'rm -f "$folders" "$folders".*' EXIT
  printf '%s\n' "$explained" | sed 's/#.*//' | awk 'NF == 2 { print $1, $2 }' >"$folders"
  for layer in common reference cuda verification; do
    grep -rHoE '^ *# *include "[^"]+"' --include='*.[ch]pp' --include='*.cu' --include='*.cuh' \
      --exclude=not_compiled.cpp $layer |  # contains the stubs of every folder of the device
      sed -E 's/: *# *include "/ /; s/"$//' |
      awk -v layer=$layer 'function folder(file) { sub("/[^/]*$", "", file); return file }
        index($2, layer "/") == 1 && folder($1) != folder($2) { print folder($1), folder($2) }' | sort -u >"$folders.all"
    [ -s "$folders.all" ] || fail "$layer has no folder that includes another: nothing was checked"
    while read -r from to; do
      case $from in "$layer" | "$layer"/*) ;; *) continue ;; esac
      [ -d "$from" ] || continue
      grep -qx "$from $to" "$folders.all" || fail "$from no longer includes $to: remove it from the exceptions"
    done <"$folders"
    grep -vxFf "$folders" "$folders.all" >"$folders.arrows" || true
    tsort "$folders.arrows" >"$folders.order" 2>"$folders.loops" ||
      fail "folders include each other: $(sed 's/^tsort: //' "$folders.loops" | tr '\n' ' ')"
    printf 'ok: %s arrows between the folders of %s, all in one direction\n' "$(wc -l <"$folders.arrows")" "$layer"
  done
  exit 0
fi

compiler=$1 layer=$2 root=$3
# Headers that each layer must not include, and one of its own that it must.
case $layer in
  common) forbidden='reference/rule.hpp cuda/host/update_operations.hpp verification/cases/case.hpp' own=common/base/error.hpp ;;
  reference) forbidden='cuda/host/update_operations.hpp verification/cases/case.hpp' own=reference/rule.hpp ;;
  cuda) forbidden='reference/rule.hpp verification/cases/case.hpp' own=cuda/host/update_operations.hpp ;;
  *) fail "unknown layer $layer" ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
compile() {
  printf '#include "%s"\n' "$1" >"$folder/one.cpp"
  "$compiler" -std=c++20 -fsyntax-only -I"$root" "$folder/one.cpp" 2>"$folder/errors"
}
compile "$own" || fail "$layer cannot include $own: $(cat "$folder/errors")"
printf 'ok: %s includes %s\n' "$layer" "$own"
for header in $forbidden; do
  if compile "$header"; then fail "$layer can include $header"; fi
  grep -q 'No such file\|file not found' "$folder/errors" || fail "unexpected error: $(cat "$folder/errors")"
  printf 'ok: %s cannot include %s\n' "$layer" "$header"
done
