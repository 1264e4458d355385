#!/bin/sh
# layers_test.sh COMPILER LAYER ROOT      an include against the arrows must end with "No such file"
# layers_test.sh --foreign SOURCE_DIR     libraries must stay in the layers that may use them
# layers_test.sh --rooms SOURCE_DIR       inside a layer, the folders must include each other in one direction only
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
  # whatever takes seconds to read is read by one source (benchmarks bring their own)
  only 'CLI/' 'verification/cli/command_set\.cpp|verification/bench/'
  only 'toml\+\+' 'verification/cases/config/toml\.cpp'
  only 'nlohmann/' 'common/io/json\.cpp|common/io/safetensors/safetensors_sax\.hpp|verification/bench/'
  only 'fmt/' 'verification/report/format\.|verification/bench/'
  only 'nanobind/' 'verification/interfaces/python/'
  only 'cub/' 'cuda/device/kernels/(bulk/batched_copy|gradients/grad_stats)\.cu|verification/bench/device/'
  only 'cuda_runtime|cuda\.h|nccl|thrust/' 'cuda/'
  found=$(grep -rlE '^ *#pragma omp' common reference verification || true)
  [ -z "$found" ] || fail "OpenMP outside cuda/: $found"
  printf 'ok: OpenMP only in cuda/\n'
  exit 0
fi

if [ "$1" = --rooms ]; then
  cd "$2"
  # An implementation is found by its name: the sources of an operation are in one room, whoever's they are.
  find reference cuda/host cuda/device -type f | sort | awk -F/ '
    $(NF - 1) ~ /^(formats|gradients|update|layers)$/ {
      name = $NF; sub(/[.].*/, "", name); count[$(NF - 2)]++
      if (name in room && room[name] != $(NF - 1)) { print "FAILED: " first[name] " and " $0 " are in two rooms"; bad = 1 }
      room[name] = $(NF - 1); first[name] = $0
    }
    END {
      if (!count["reference"] || !count["host"] || !count["kernels"]) { print "FAILED: no rooms of implementations"; bad = 1 }
      if (!bad) print "ok: implementations are in the same rooms of reference, cuda/host and cuda/device"
      exit bad
    }' || exit 1
  # Arrows that run the other way, FROM TO, each with the reason why it may.
  explained='
    cuda/device/runtime cuda/device/sim  # under the simulator the words of the CUDA language come from there
  '
  rooms=$(mktemp)
  trap 'rm -f "$rooms" "$rooms".*' EXIT
  printf '%s\n' "$explained" | sed 's/#.*//' | awk 'NF == 2 { print $1, $2 }' >"$rooms"
  for layer in common reference cuda verification; do
    grep -rHoE '^ *# *include "[^"]+"' --include='*.[ch]pp' --include='*.cu' --include='*.cuh' \
      --exclude=not_compiled.cpp $layer |  # which has the stubs of every folder of the device
      sed -E 's/: *# *include "/ /; s/"$//' |
      awk -v layer=$layer 'function room(file) { sub("/[^/]*$", "", file); return file }
        index($2, layer "/") == 1 && room($1) != room($2) { print room($1), room($2) }' | sort -u >"$rooms.all"
    [ -s "$rooms.all" ] || fail "$layer has no room that includes another: nothing was looked at"
    while read -r from to; do
      case $from in "$layer" | "$layer"/*) ;; *) continue ;; esac
      [ -d "$from" ] || continue
      grep -qx "$from $to" "$rooms.all" || fail "$from no longer includes $to: take it from the explained ones"
    done <"$rooms"
    grep -vxFf "$rooms" "$rooms.all" >"$rooms.arrows" || true
    tsort "$rooms.arrows" >"$rooms.order" 2>"$rooms.loops" ||
      fail "rooms include each other: $(sed 's/^tsort: //' "$rooms.loops" | tr '\n' ' ')"
    printf 'ok: %s arrows between the rooms of %s, all in one direction\n' "$(wc -l <"$rooms.arrows")" "$layer"
  done
  exit 0
fi

compiler=$1 layer=$2 root=$3
# What each layer must not see, and one header of its own that it must.
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
printf 'ok: %s sees %s\n' "$layer" "$own"
for header in $forbidden; do
  if compile "$header"; then fail "$layer can include $header"; fi
  grep -q 'No such file\|file not found' "$folder/errors" || fail "unexpected error: $(cat "$folder/errors")"
  printf 'ok: %s cannot include %s\n' "$layer" "$header"
done
