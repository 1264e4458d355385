#!/bin/sh
# Another project uses this one:
#   install_test.sh package SOURCE_DIR BUILD_DIR CXX     cmake --install, then find_package(zeroproof)
#   install_test.sh subdirectory SOURCE_DIR - CXX        add_subdirectory()
# The consumer runs a step of both sides and compares the bits. The comparison is also shown to fail.
set -eu
how=$1 source=$2 build=$3 compiler=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
fail() { printf 'FAIL  %s\n' "$1"; exit 1; }
quietly() { # command: its output is shown when it fails
  "$@" >"$work/log" 2>&1 || { cat "$work/log"; fail "$*"; }
}
consumer() { # arguments of cmake
  quietly cmake -G Ninja -S "$source/tests/install/consumer" -B "$work/consumer" -DCMAKE_CXX_COMPILER="$compiler" "$@"
  quietly cmake --build "$work/consumer"
}

case $how in
  package)
    quietly cmake --install "$build" --prefix "$work/prefix"
    find "$work/prefix" -name '*.hpp' | grep -q . || fail "no header was installed"
    plugin_header=$work/prefix/include/zeroproof/verification/interfaces/capi/zeroproof_plugin.h
    [ -f "$plugin_header" ] || fail "the header of plug-ins was not installed"
    printf '#include "%s"\nint main(void) { return 0; }\n' "$plugin_header" >"$work/plugin.c"
    quietly "$compiler" -x c -std=c99 -Wall -Wextra -pedantic -Werror -fsyntax-only "$work/plugin.c"
    quietly "$compiler" -std=c++20 -shared -fPIC -I "${plugin_header%/*}" \
      "$source/verification/examples/plugin_cpp/adamw.cpp" -o "$work/libmine.so"
    quietly "$compiler" -std=c++17 -Wall -Wextra -Werror -shared -fPIC -I "${plugin_header%/*}" \
      -x c++ "$source/verification/examples/plugin_cuda/adamw.cu" -o "$work/libkernel.so"
    # nothing of the consumer may come from this checkout
    if grep -rlF -e "$source" "$work/prefix" --include='*.cmake' --include='*.hpp'; then
      fail "these installed files name the checkout"
    fi
    consumer -DCMAKE_PREFIX_PATH="$work/prefix" -DZEROPROOF_HEADERS="$work/prefix/include"
    ;;
  subdirectory)
    consumer -DZEROPROOF_SOURCE="$source" -DZP_CUDA=OFF -DCMAKE_BUILD_TYPE=Debug -DZP_KERNEL_OPTIMISATION=-O1
    ;;
  *) fail "unknown argument $how" ;;
esac
"$work/consumer/consumer" || fail "the two sides of one step differ"
if "$work/consumer/consumer" wrong; then fail "a wrong learning rate was not detected"; fi
echo "ok    $how"
