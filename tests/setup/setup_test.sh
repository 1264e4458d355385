#!/bin/sh
# Tests common/setup.sh, verification/run, tests/run, tests/sanitize, tests/style, tests/gpu and .ci/run without installing anything:
#   sh tests/setup/setup_test.sh SOURCE_DIR
# The scripts are copied into a checkout whose path has a space and a letter outside ASCII, and
# run with a PATH ("the box") of a few real utilities and stand-ins for the compiler, CMake, apt-get,
# sudo and the rest. Prints one line per check; exits 1 if any failed.
set -u
source_dir=$(CDPATH='' cd -- "${1:?usage: sh setup_test.sh SOURCE_DIR}" && pwd -P) || exit 1
work=$(mktemp -d) || exit 1
work=$(CDPATH='' cd -- "$work" && pwd -P)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
site="$work/a checkout é"
box=$work/box stock=$work/stock state=$work/state
failed=0 checks=0
real_path=$PATH

# ---------------------------------------------------------------- checking

check() { # what is expected, then a command that says whether it holds
  checks=$((checks + 1))
  label=$1
  shift
  if "$@"; then
    printf 'ok    %s\n' "$label"
  else
    failed=$((failed + 1))
    printf 'FAIL  %s\n' "$label"
    printf '      exit status %s; it said:\n' "${status:-none}"
    sed 's/^/      | /' "$work/out" "$work/err" 2>/dev/null
  fi
}

exits() { [ "$status" = "$1" ]; }
says() { grep -q -F -e "$1" "$work/out"; }
says_not() { ! grep -q -F -e "$1" "$work/out"; }
complains() { grep -q -F -e "$1" "$work/err"; }
complains_not() { ! grep -q -F -e "$1" "$work/err"; }
one_sentence() { [ "$(wc -l <"$work/err")" -eq 1 ] && [ ! -s "$work/out" ]; }
ends_with() { [ "$(cat "$work/out" "$work/err" | tail -n 1)" = "$1" ]; }
last_word_is_next() { [ "$(tail -n 1 "$work/out" | cut -c 1-6)" = 'next: ' ]; }
sentence_last() { tail -n 1 "$work/err" | grep -q '^verification/run: missing: '; }
called() { grep -q -F -x -e "$1" "$state/calls"; }
called_with() { grep -F -e "$1" "$state/calls" | grep -q -F -e "$2"; }
called_not() { ! grep -q -F -e "$1" "$state/calls"; }
nothing_built() { [ ! -e "$site/build" ]; }
plain() { ! cat "$work/out" "$work/err" | grep -q -e "$(printf '\033')" -e "$(printf '\r')"; }

# run SCRIPT [NAME=VALUE...] [-- ARGUMENTS]: from $from (the checkout), in the box
run() {
  script=$1
  shift
  settings=''
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    settings="$settings $1"
    shift
  done
  if [ $# -gt 0 ]; then shift; fi
  : >"$state/calls"
  status=0
  (
    CDPATH='' cd -- "${from:-$site}" || exit 99
    # shellcheck disable=SC2086  # settings are simple words
    exec env -i PATH="$box" HOME="$work" TERM=xterm BOX="$box" STOCK="$stock" STATE="$state" $settings "$script" "$@"
  ) >"$work/out" 2>"$work/err" </dev/null || status=$?
}

# ---------------------------------------------------------------- stand-ins

# Each notes how it was called, so that a check can ask.
stand_in() { # name; body on standard input
  {
    # shellcheck disable=SC2016  # meant for the stand-in
    # One write: others may be called at the same time.
    printf '#!/bin/sh\nline="%s"\nfor word in "$@"; do line="$line [$word]"; done\nprintf "%%s\\n" "$line" >>"$STATE/calls"\n' "$1"
    cat
  } >"$stock/$1"
  chmod +x "$stock/$1"
}

make_stock() {
  mkdir -p "$stock"
  # Answers the header questions of setup.sh with yes, but for the names in the file "without".
  # Asked to make a program, it makes one that ends well, unless a sanitizer of FAKE_NO_SANITIZER is asked for or
  # FAKE_SCATTERED says that sanitized programs only run under setarch.
  stand_in g++ <<'BODY'
target='' before='' sanitizer=''
for word in "$@"; do
  case $word in -fsanitize=*) sanitizer=${word#-fsanitize=} ;; esac
  [ "$before" != -o ] || target=$word
  before=$word
done
if [ -n "$target" ]; then
  case ${FAKE_NO_SANITIZER:-none} in "$sanitizer" | all) exit 1 ;; esac
  printf '#!/bin/sh\nexit %s\n' "\${UNDER_SETARCH:-${FAKE_SCATTERED:-0}}" >"$target"
  chmod +x "$target"
  exit 0
fi
while IFS= read -r line; do :; done
printf '# 1 "<stdin>"\nzp_start\ncompiler gcc %s zp_end\n' "${FAKE_GCC:-12 . 2 . 0}"
for name in stdlib openmp cli11 json toml yaml xxhash fmt doctest; do
  grep -q -x "$name" "$STATE/without" || echo "$name yes zp_end"
done
grep -q -x eigen "$STATE/without" || printf 'eigen 3\n   .\n 4 . 0 zp_end\n'
BODY
  sed -e 's/compiler gcc %s/compiler clang %s/' -e 's/FAKE_GCC:-12 . 2 . 0/FAKE_CLANG:-14 . 0 . 6/' -e 's/printf "g++"/printf "clang++"/' \
    "$stock/g++" >"$stock/clang++"
  chmod +x "$stock/clang++"
  stand_in setarch <<'BODY'
shift 2
UNDER_SETARCH=0 exec "$@"
BODY
  echo 'echo x86_64' | stand_in uname
  stand_in cmake <<'BODY'
case $1 in
  --version) echo "cmake version ${FAKE_CMAKE:-3.25.1}" ;;
  --preset)
    [ "${FAKE_CONFIGURE:-0}" = 0 ] || exit 1
    case $2 in cpu) tree=$4/build ;; *) tree=$4/build/$2 ;; esac
    mkdir -p "$tree"
    {
      echo "CMAKE_HOME_DIRECTORY:INTERNAL=$4"
      echo "CMAKE_CACHEFILE_DIR:INTERNAL=$tree"
      echo "CMAKE_GENERATOR:INTERNAL=Ninja"
      echo "CMAKE_CXX_COMPILER:FILEPATH=$BOX/g++"
      for word in "$@"; do
        case $word in -D*=*) word=${word#-D}; echo "${word%%=*}:STRING=${word#*=}" ;; esac
      done
    } >"$tree/CMakeCache.txt"
    echo "CXX is $CXX, CC is ${CC:-unset}" >>"$STATE/calls"
    ;;
  --build)
    [ "${FAKE_BUILD:-0}" = 0 ] || { echo '[1/9] fine'; echo 'FAILED: part.o'; exit 1; }
    cp "$STOCK/zeroproof" "$2/zeroproof"
    ;;
esac
BODY
  stand_in zeroproof <<'BODY'
pwd >"$STATE/where"
case "$*" in
  *nccl:*)
    echo "sharing is ${NCCL_MULTI_RANK_GPU_ENABLE:-unset}" >>"$STATE/calls"
    [ "${FAKE_NCCL:-0}" = 0 ] || echo 'NCCL takes one rank for each device'
    exit "${FAKE_NCCL:-0}"
    ;;
  *fp8-current*) exit "${FAKE_SCALES:-${FAKE_CLI:-0}}" ;;
esac
exit "${FAKE_CLI:-0}"
BODY
  stand_in zeroproof-bench-device <<'BODY'
if [ "${FAKE_BENCH:-0}" = 0 ]; then echo 'rows of a benchmark'; else echo 'no device answers'; fi
exit "${FAKE_BENCH:-0}"
BODY
  echo 'exit 0' | stand_in python3
  stand_in ctest <<'BODY'
echo '100% tests passed, 0 tests failed out of 1'
exit "${FAKE_CTEST:-0}"
BODY
  echo 'echo 1.11.1' | stand_in ninja
  echo 'exit 0' | stand_in ccache
  echo 'exit 0' | stand_in mpicxx
  echo 'echo "mpirun (Open MPI) 4.1.4"' | stand_in mpirun
  stand_in id <<'BODY'
case $1 in -un) echo somebody ;; *) echo "${FAKE_UID:-0}" ;; esac
BODY
  stand_in sudo <<'BODY'
[ "${FAKE_SUDO:-0}" = 0 ] || exit 1
shift
exec "$@"
BODY
  # shellcheck disable=SC2016  # meant for the stand-in
  echo 'exit "${FAKE_KNOWN:-0}"' | stand_in apt-cache
  # Short, but not so short that what waits with it would spin; and not noted, since it runs beside the others.
  printf '#!/bin/sh\nexec %s 0.05\n' "$(command -v sleep)" >"$stock/sleep"
  chmod +x "$stock/sleep"
  # shellcheck disable=SC2016  # meant for the stand-in
  echo 'exit "${FAKE_SANITIZER:-0}"' | stand_in compute-sanitizer
  # shellcheck disable=SC2016  # meant for the stand-in
  printf '%s\n' '[ "${FAKE_LATE:-no}" != "${2##*/}" ] || exit 124' shift 'exec "$@"' | stand_in timeout
  echo 'exit 0' | stand_in true
  # Installing a package means: its programs enter the box, its headers leave the file "without".
  stand_in apt-get <<'BODY'
case ${FAKE_APT:-ok} in
  unreachable)
    case "$*" in
      *' update') echo "W: Failed to fetch: Temporary failure resolving 'mirror'"; exit 0 ;;
      *) echo 'E: Unable to locate package g++'; exit 100 ;;
    esac
    ;;
  locked)
    echo x >>"$STATE/tries"
    if [ "$(wc -l <"$STATE/tries")" -le 2 ]; then
      echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)'
      exit 100
    fi
    ;;
  full) echo 'E: You do not have enough free space in /var/cache/apt/archives/.'; exit 100 ;;
  *) [ "${FAKE_APT:-ok}" = ok ] || exit 100 ;;
esac
[ "${DEBIAN_FRONTEND:-}" = noninteractive ] || exit 100
take() { for tool in "$@"; do rm -f "$BOX/$tool"; cp "$STOCK/$tool" "$BOX/$tool"; done; }
header() { grep -v -x "$1" "$STATE/without" >"$STATE/rest"; mv "$STATE/rest" "$STATE/without"; }
for package in "$@"; do
  case $package in
    g++) take g++ ;;
    cmake) take cmake ctest ;;
    ninja-build) take ninja ;;
    ccache) take ccache ;;
    clang) take clang++ ;;
    libopenmpi-dev) take mpicxx ;;
    openmpi-bin) take mpirun ;;
    libeigen3-dev) header eigen ;;
    libyaml-cpp-dev) header yaml ;;
    doctest-dev) header doctest ;;
  esac
done
BODY
}

# fresh TOOLS...: an untouched checkout and a box with these stand-ins besides the utilities
fresh() {
  rm -rf "$site" "$box" "$state"
  mkdir -p "$site" "$box" "$state"
  for part in common/setup.sh common/progress.sh verification/run tests/run tests/sanitize tests/style tests/gpu .ci/run; do
    mkdir -p "$site/${part%/*}"
    cp "$source_dir/$part" "$site/$part"
  done
  for tool in sh env cat cp mv rm mkdir ls sed grep cut tr wc tail head date readlink chmod; do
    ln -s "$(command -v "$tool")" "$box/$tool"
  done
  : >"$state/without"
  # A copy to a link would be written where the link leads, to the machine's own utility: what is in the way goes first.
  for tool in id sleep true "$@"; do
    rm -f "$box/$tool"
    cp "$stock/$tool" "$box/$tool"
  done
}
furnished() { fresh g++ cmake ctest ninja mpicxx mpirun "$@"; }

make_stock

# ---------------------------------------------------------------- help

fresh
for script in verification/run tests/run; do
  run "$script" -- --help
  check "$script --help: exit 0" exits 0
  check "$script --help: says what it does" says 'Sets up what'
  for variable in INSTALL OFFLINE CUDA MPI YAML JOBS DRY_RUN; do
    check "$script --help: names ZP_$variable" says "ZP_$variable="
  done
  check "$script --help: touches nothing" nothing_built
done

# ---------------------------------------------------------------- nothing is here

fresh apt-get
run verification/run ZP_INSTALL=never
check 'bare, never: exit 3' exits 3
check 'bare, never: one sentence and nothing else' one_sentence
check 'bare, never: names what is missing' complains 'missing: a C++20 compiler (g++ >= 11 or clang++ >= 14), cmake >= 3.25, ninja'
check 'bare, never: says why it does not install' complains 'ZP_INSTALL=never forbids'
check 'bare, never: gives the line for the administrator' \
  complains 'apt-get update && apt-get install -y --no-install-recommends g++ cmake ninja-build libeigen3-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libxxhash-dev libfmt-dev libyaml-cpp-dev'
check 'bare, never: the line includes MPI' complains 'libopenmpi-dev openmpi-bin'
check 'bare, never: apt-get is not called' called_not apt-get

run verification/run ZP_INSTALL=never ZP_MPI=OFF
check 'bare, never, no MPI: the line leaves MPI out' complains_not openmpi

run verification/run ZP_OFFLINE=1
check 'bare, offline: exit 3' exits 3
check 'bare, offline: one sentence' one_sentence
check 'bare, offline: says why' complains 'ZP_OFFLINE=1 forbids'
check 'bare, offline: apt-get is not called' called_not apt-get

run tests/run ZP_INSTALL=never
check 'bare, tests/run: exit 3' exits 3
check 'bare, tests/run: its own name in front' complains 'tests/run: missing: '

run verification/run FAKE_UID=1000
check 'user without sudo: exit 3' exits 3
check 'user without sudo: one sentence' one_sentence
check 'user without sudo: says so' complains 'this user may not install packages)'
check 'user without sudo: the line for the administrator' complains 'apt-get install -y --no-install-recommends g++'

fresh apt-get sudo
run verification/run FAKE_UID=1000 FAKE_SUDO=1
check 'user whom sudo asks for a password: exit 3' exits 3
check 'user whom sudo asks for a password: says so' complains 'without a password'
check 'user whom sudo asks for a password: apt-get is not called' called_not apt-get

fresh
run verification/run
check 'no apt-get: exit 3' exits 3
check 'no apt-get: one sentence' one_sentence
check 'no apt-get: says so' complains 'there is no apt-get here'
check 'no apt-get: names the packages' complains "Debian's names are: g++ cmake ninja-build"

# ---------------------------------------------------------------- dry run

fresh apt-get
run verification/run ZP_DRY_RUN=1 ZP_JOBS=3 -- --seed 'a b'
check 'dry run, root: exit 0' exits 0
check 'dry run, root: the update' says '+ env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 update'
check 'dry run, root: the installation' says 'apt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends g++ cmake ninja-build'
check 'dry run, root: the configuration' says "+ env CXX=g++ CC=gcc cmake --preset cpu -S '$site' -DZP_TESTS=OFF -DZP_CUDA=AUTO -DZP_MPI=AUTO -DZP_YAML=AUTO"
check 'dry run, root: the build' says "+ cmake --build '$site/build' --parallel 3 --target zeroproof"
check 'dry run, root: the verification, quoted' says "+ '$site/build/zeroproof' verify --seed 'a b' --report 'text,json:$site/build/report/verify.json'"
check 'dry run, root: nothing is built' nothing_built
check 'dry run, root: nothing is called' called_not apt-get
check 'dry run, root: the table' says 'compiler    missing'
check 'dry run, root: ends with the next step' last_word_is_next

fresh apt-get sudo
run tests/run ZP_DRY_RUN=1 FAKE_UID=1000
check 'dry run, sudo: the installation' says '+ sudo -n env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 install'
check 'dry run, sudo: sudo is not called' called_not sudo
check 'dry run, tests/run: the configuration' says ' -DZP_TESTS=ON '
check 'dry run, tests/run: the tests' says "+ ctest --test-dir '$site/build' --output-on-failure --no-tests=error -j "
check 'dry run, tests/run: ccache comes along' says 'openmpi-bin ccache'
check 'dry run, tests/run: what some tests need comes along' says 'ccache python3-venv python3-dev python3-numpy python3-matplotlib python3-yaml libmpfr-dev'

# ---------------------------------------------------------------- installing

fresh apt-get
echo eigen >"$state/without"
run verification/run
check 'install as root: exit 0' exits 0
check 'install as root: update' called 'apt-get [-o] [DPkg::Lock::Timeout=120] [update]'
check 'install as root: without recommended packages' called_with '[install] [-y]' '[--no-install-recommends] [g++]'
check 'install as root: MPI too' called_with '[install]' '[libopenmpi-dev] [openmpi-bin]'
check 'install as root: no ccache for verification/run' called_not '[ccache]'
check 'install as root: no Python for verification/run' called_not '[python3-venv]'
check 'install as root: a log below build/' test -f "$site/build/setup/apt-install.log"
check 'install as root: the table' says 'mpi         ok      Open MPI 4.1.4'
check 'install as root: ends with the next step' \
  ends_with '      ./tests/run runs every test; build/zeroproof doctor says what this machine can check; --rows shows every case'
run verification/run
check 'second run: exit 0' exits 0
check 'second run: no apt-get' called_not apt-get
check 'second run: no fresh configuration' called_not '[--fresh]'
check 'pipes get neither colour nor carriage returns' plain

furnished apt-get
echo eigen >"$state/without"
run verification/run
check 'one header is missing: only its package' called 'apt-get [-o] [DPkg::Lock::Timeout=120] [install] [-y] [--no-install-recommends] [libeigen3-dev]'

fresh apt-get sudo
run verification/run FAKE_UID=1000
check 'install through sudo: exit 0' exits 0
check 'install through sudo: the line is shown first' \
  says 'running: sudo -n env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends g++'
check 'install through sudo: never asks' called_with 'sudo [-n] [env]' '[install]'

furnished apt-get
echo doctest >"$state/without"
run verification/run
check 'doctest is missing: verification/run does not mind' called_not apt-get
run tests/run
check 'doctest is missing: tests/run installs it and ccache' \
  called 'apt-get [-o] [DPkg::Lock::Timeout=120] [install] [-y] [--no-install-recommends] [doctest-dev] [ccache] [python3-venv] [python3-dev] [python3-numpy] [python3-matplotlib] [python3-yaml] [libmpfr-dev]'

furnished apt-get
run tests/run
check 'only ccache is missing: nothing is installed' called_not apt-get

fresh apt-get
run verification/run FAKE_APT=unreachable
check 'no network: exit 3' exits 3
check 'no network: says so' complains 'no package server could be reached'
check 'no network: the sentence is last' sentence_last
check 'no network: does not ask for an administrator' complains_not administrator
check 'no network: shows the end of the log' complains 'E: Unable to locate package'
run verification/run FAKE_APT=full
check 'disk full: exit 3' exits 3
check 'disk full: says so' complains 'the disk is full'
run verification/run FAKE_APT=locked
check 'apt-get is busy at first: waits, then goes on' exits 0
check 'apt-get is busy at first: says so' says 'another program is installing packages'

fresh apt-get
run verification/run FAKE_CMAKE=3.22.1
check 'only an old cmake to be had: exit 3' exits 3
check 'only an old cmake to be had: says which' complains 'missing: cmake >= 3.25 (found 3.22.1) ('
check 'only an old cmake to be had: another remedy' complains 'put a newer one first on PATH'

furnished
run verification/run FAKE_CMAKE=4.0.0
check 'cmake 4.0 is newer than 3.25' exits 0
run verification/run ZP_INSTALL=never 'FAKE_GCC=9.4.0'
check 'g++ 9 is refused' complains 'missing: a C++20 compiler'
echo stdlib >"$state/without"
run verification/run ZP_INSTALL=never
check 'a compiler without a standard library is refused' complains 'missing: a C++20 compiler'
echo openmp >"$state/without"
run verification/run ZP_INSTALL=never
check 'a compiler without OpenMP is refused' complains 'missing: a C++20 compiler'
: >"$state/without"
mv "$box/g++" "$box/clang++-15"
run verification/run
check 'a compiler with its version in its name: found, with its C compiler' called 'CXX is clang++-15, CC is clang-15'
cp "$stock/g++" "$stock/true" "$box/"
mv "$box/true" "$box/cc"
run verification/run
check 'where there is a cc, CMake finds it' called_with 'CXX is' 'CC is unset'

# ---------------------------------------------------------------- MPI

fresh g++ cmake ctest ninja apt-get
run verification/run ZP_INSTALL=never
check 'only MPI is missing: goes on' exits 0
check 'only MPI is missing: a banner' says 'multi-process checks OFF (MPI is missing, and ZP_INSTALL=never forbids'
check 'only MPI is missing: CMake is told' called_with 'cmake [--preset]' '[-DZP_MPI=OFF]'
run verification/run FAKE_APT=unreachable
check 'MPI cannot be fetched: goes on' exits 0
check 'MPI cannot be fetched: a banner' says 'multi-process checks OFF (MPI is missing, and no package server'
run verification/run ZP_INSTALL=never ZP_MPI=ON
check 'MPI is demanded and missing: exit 3' exits 3
check 'MPI is demanded and missing: one sentence' one_sentence
check 'MPI is demanded and missing: names it' complains 'missing: MPI ('
run verification/run ZP_MPI=OFF
check 'MPI is unwanted: nothing is installed' called_not apt-get
run verification/run ZP_MPI=OFF ZP_INSTALL=never
check 'MPI is unwanted: no banner' says_not 'multi-process checks OFF'
check 'MPI is unwanted: the table says off' says 'mpi         off'

# ---------------------------------------------------------------- YAML

furnished apt-get
echo yaml >"$state/without"
run verification/run ZP_INSTALL=never
check 'only yaml-cpp is missing: goes on' exits 0
check 'only yaml-cpp is missing: a banner' says 'quantization rules OFF (yaml-cpp is missing, and ZP_INSTALL=never forbids'
check 'only yaml-cpp is missing: CMake is told' called_with 'cmake [--preset]' '[-DZP_YAML=OFF]'
check 'only yaml-cpp is missing: the table says off' says 'yaml        off'
run verification/run ZP_INSTALL=never ZP_YAML=ON
check 'yaml-cpp is demanded and missing: exit 3' exits 3
check 'yaml-cpp is demanded and missing: one sentence' one_sentence
check 'yaml-cpp is demanded and missing: names it' complains 'missing: yaml-cpp ('
run verification/run ZP_YAML=OFF
check 'yaml-cpp is unwanted: nothing is installed' called_not apt-get
check 'yaml-cpp is unwanted: no banner' says_not 'quantization rules OFF'
rm "$box/mpicxx"
run verification/run FAKE_APT=unreachable
check 'neither yaml-cpp nor MPI can be fetched: goes on' exits 0
check 'neither yaml-cpp nor MPI can be fetched: a banner for MPI' says 'multi-process checks OFF (MPI is missing'
check 'neither yaml-cpp nor MPI can be fetched: a banner for yaml-cpp' says 'quantization rules OFF (yaml-cpp is missing, and no package server'
cp "$stock/mpicxx" "$box/"
run verification/run
check 'yaml-cpp is missing: installed' called 'apt-get [-o] [DPkg::Lock::Timeout=120] [install] [-y] [--no-install-recommends] [libyaml-cpp-dev]'
check 'yaml-cpp was installed: the table' says 'yaml        ok'

# ---------------------------------------------------------------- options

furnished
for setting in ZP_INSTALL=maybe ZP_OFFLINE=yes ZP_CUDA=on ZP_MPI=1 ZP_YAML=yes ZP_DRY_RUN=true ZP_JOBS=0 ZP_JOBS=two ZP_JOBS=-1; do
  run verification/run "$setting"
  check "$setting: exit 2" exits 2
  check "$setting: one sentence" one_sentence
  check "$setting: it is named" complains "${setting%%=*} is "
done
run tests/run ZP_JOBS=0
check 'tests/run: a bad value is exit 2 too' exits 2
run verification/run CXX=no-such-compiler
check 'CXX is no compiler: exit 2' exits 2
check 'CXX is no compiler: one sentence' one_sentence
run verification/run CXX=g++ ZP_CUDA=OFF ZP_JOBS=7 ZP_INSTALL= ZP_OFFLINE=
check 'empty values count as unset' exits 0
check 'CXX reaches CMake' called 'CXX is g++, CC is gcc'
check 'ZP_CUDA reaches CMake' called_with 'cmake [--preset]' '[-DZP_CUDA=OFF]'
check 'ZP_JOBS reaches the build' called_with 'cmake [--build]' '[--parallel] [7]'
check 'only the tool is built' called_with 'cmake [--build]' '[--target] [zeroproof]'

# ---------------------------------------------------------------- an existing build

furnished
run verification/run
check 'without an earlier build: tests OFF' called_with 'cmake [--preset]' '[-DZP_TESTS=OFF]'
run tests/run
check 'tests/run switches the tests on' called_with 'cmake [--preset]' '[-DZP_TESTS=ON]'
check 'tests/run builds all but the benchmarks' called_with 'cmake [--build]' \
  '[--target] [all] [zeroproof-faults] [zeroproof-sim] [test_faults]'
run verification/run
check 'verification/run leaves the tests on' called_with 'cmake [--preset]' '[-DZP_TESTS=ON]'

sed 's|^CMAKE_HOME_DIRECTORY.*|CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere|' "$site/build/CMakeCache.txt" >"$work/cache"
cp "$work/cache" "$site/build/CMakeCache.txt"
run verification/run
check 'build of another checkout: configured afresh' called_with 'cmake [--preset]' '[--fresh]'
check 'build of another checkout: says so' says 'it belongs to /elsewhere): configuring afresh'
sed 's|^CMAKE_CACHEFILE_DIR.*|CMAKE_CACHEFILE_DIR:INTERNAL=/elsewhere/build|' "$site/build/CMakeCache.txt" >"$work/cache"
cp "$work/cache" "$site/build/CMakeCache.txt"
run verification/run
check 'build that was moved: configured afresh' called_with 'cmake [--preset]' '[--fresh]'
sed 's|^CMAKE_GENERATOR.*|CMAKE_GENERATOR:INTERNAL=Unix Makefiles|' "$site/build/CMakeCache.txt" >"$work/cache"
cp "$work/cache" "$site/build/CMakeCache.txt"
run verification/run
check 'build by make: configured afresh' called_with 'cmake [--preset]' '[--fresh]'
sed 's/FAKE_GCC:-12/FAKE_GCC:-13/' "$box/g++" >"$box/other-g++"
chmod +x "$box/other-g++"
run verification/run "CXX=other-g++"
check 'build by another compiler: configured afresh' called_with 'cmake [--preset]' '[--fresh]'
rm "$box/other-g++"
run verification/run
sed 's|^CMAKE_CXX_COMPILER.*|CMAKE_CXX_COMPILER:FILEPATH=CMAKE_CXX_COMPILER-NOTFOUND|' "$site/build/CMakeCache.txt" >"$work/cache"
cp "$work/cache" "$site/build/CMakeCache.txt"
run verification/run
check 'build that found no compiler: not configured afresh, CMake looks again' called_not '[--fresh]'
run verification/run
check 'build by the same compiler: not configured afresh' called_not '[--fresh]'

furnished
: >"$site/build"
run verification/run
check 'build/ cannot be written: exit 3' exits 3
check 'build/ cannot be written: one sentence' one_sentence
run verification/run ZP_DRY_RUN=1
check 'build/ cannot be written: the dry run says so too' exits 3

furnished
run verification/run FAKE_CONFIGURE=1
check 'CMake refuses: exit 2' exits 2
run verification/run FAKE_BUILD=1
check 'a failed build: what failed is shown' complains 'FAILED: part.o'
check 'a failed build: what went well is not' complains_not '[1/9] fine'
check 'a failed build: names its log' complains 'the whole log: '
check 'verification/run, the build fails: exit 9' exits 9
run tests/run FAKE_BUILD=1
check 'tests/run, the build fails: exit 1' exits 1

# ---------------------------------------------------------------- what is run, and how it ends

furnished
run verification/run -- 'one two' --seed 7
check 'arguments reach the tool unchanged, and a report is asked for' \
  called "zeroproof [verify] [one two] [--seed] [7] [--report] [text,json:$site/build/report/verify.json]"
check 'the folder of the report is there' test -d "$site/build/report"
run verification/run -- --report junit:x
check "the caller's --report stays alone" called 'zeroproof [verify] [--report] [junit:x]'
run verification/run -- --report=text
check "the caller's --report=... stays alone" called 'zeroproof [verify] [--report=text]'
for code in 1 5 130; do
  run verification/run "FAKE_CLI=$code"
  check "the tool's exit status $code is passed on" exits "$code"
  check "exit status $code: ends with the next step" last_word_is_next
done

from=$work
run "$site/verification/run"
check 'from another folder: exit 0' exits 0
check 'from another folder: the tool runs in that folder' [ "$(cat "$state/where")" = "$work" ]
check 'from another folder: the next step can be pasted' \
  ends_with "      '$site/tests/run' runs every test; '$site/build/zeroproof' doctor says what this machine can check; --rows shows every case"
from=$site/verification
run sh -- run
check 'from its own folder, without a slash' exits 0
from=''

run tests/run
check 'tests/run: exit 0' exits 0
check 'tests/run: leaves out slow, gpu, bench and nightly' called_with 'ctest [--test-dir]' '[-LE] [slow|gpu|bench|nightly]'
check 'tests/run: no tests is an error' called_with 'ctest [--test-dir]' '[--no-tests=error]'
check 'tests/run: ends with the next step' last_word_is_next
run tests/run ZP_NIGHTLY=1
check 'ZP_NIGHTLY=1: the benchmarks too' called_with 'cmake [--build]' '[--target] [all] [everything]'
check 'tests/run, nightly: the nightly ones too' called_with 'ctest [--test-dir]' '[-LE] [slow|gpu|bench]'
run tests/run ZP_NIGHTLY=yes
check 'ZP_NIGHTLY with a bad value: exit 2' exits 2
for option in -L -LE --label-regex; do
  run tests/run -- "$option" slow
  check "tests/run $option: the caller's labels alone" called_with 'ctest [--test-dir]' "[$option] [slow]"
  check "tests/run $option: ours are left out" called_not 'slow|gpu|bench'
done
run tests/run FAKE_CTEST=8 -- -R 'a b'
check 'tests/run: a failed test is exit 1' exits 1
check 'tests/run: arguments reach ctest unchanged' called_with 'ctest [--test-dir]' '[-R] [a b]'
from=$work
run "$site/.ci/run"
check '.ci/run: exit 0 from another folder' exits 0
check '.ci/run: the sanitizers are a job of their own' called_not "[$site/build/asan]"
check '.ci/run: calls ctest' called_with 'ctest [--test-dir]' "[$site/build]"
check ".ci/run: ctest's closing line is shown" says '100% tests passed, 0 tests failed out of 1'
check '.ci/run: style outside of git is skipped, aloud' says 'style: skipped, this is not a checkout of git'
run "$site/.ci/run" -- tests
check '.ci/run tests: one job alone' called_not "[$site/build/asan]"
run "$site/.ci/run" ZP_NIGHTLY=1
check '.ci/run at night: the sanitizers too' called_with 'ctest [--test-dir]' "[$site/build/asan]"
run "$site/.ci/run" -- sanitize
check '.ci/run sanitize: one job alone' called_with 'ctest [--test-dir]' "[$site/build/asan]"
run "$site/.ci/run" -- tests perhaps
check '.ci/run, unknown job: exit 2' exits 2
check '.ci/run, unknown job: nothing was run' called_not 'ctest'
run "$site/.ci/run" FAKE_CTEST=8
check '.ci/run: a failed test is exit 1' exits 1
from=''

# ---------------------------------------------------------------- the sanitizers

furnished clang++ setarch uname
run tests/sanitize
check 'tests/sanitize: exit 0' exits 0
check 'tests/sanitize: configures both builds' called_with 'cmake [--preset]' '[asan]'
check 'tests/sanitize: ... and the other one with clang' called 'CXX is clang++, CC is clang'
check 'tests/sanitize: builds below build/asan' called_with 'cmake [--build]' "[$site/build/asan]"
check 'tests/sanitize: builds below build/tsan' called_with 'cmake [--build]' "[$site/build/tsan]"
check 'tests/sanitize: neither MPI nor CUDA' called_with '[--preset] [tsan]' '[-DZP_CUDA=OFF] [-DZP_MPI=OFF]'
check 'tests/sanitize: the tests of both' called_with 'ctest [--test-dir]' "[$site/build/tsan]"
check 'tests/sanitize: leaves out slow, gpu, bench and nightly' called_with 'ctest [--test-dir]' '[-LE] [slow|gpu|bench|nightly]'
check 'tests/sanitize: a verification in the first' [ "$(grep -c '^zeroproof \[verify\] \[byte_gpt_tiny\]' "$state/calls")" = 1 ]
check 'tests/sanitize: no setarch where programs run without' called_not setarch
check 'tests/sanitize: says what was done' \
  ends_with 'sanitizers: addresses and undefined behaviour passed, data races passed'
run tests/sanitize ZP_NIGHTLY=1
check 'tests/sanitize, nightly: a verification in both' [ "$(grep -c '^zeroproof \[verify\] \[byte_gpt_tiny\]' "$state/calls")" = 2 ]
run tests/sanitize FAKE_SCATTERED=1
check 'programs run only under setarch: exit 0' exits 0
check 'programs run only under setarch: so do the tests' called_with 'setarch [x86_64] [-R] [ctest]' "[$site/build/tsan]"
check 'programs run only under setarch: of both builds' called_with 'setarch [x86_64] [-R] [ctest]' "[$site/build/asan]"
check 'programs run only under setarch: the table says so' says 'clang++, started by setarch x86_64 -R'
run tests/sanitize FAKE_CTEST=8
check 'tests/sanitize: a failed test is exit 1' exits 1
check 'tests/sanitize: a failed test is said' says 'undefined behaviour FAILED, data races FAILED'
run tests/sanitize FAKE_CLI=1
check 'tests/sanitize: a failed verification is exit 1' exits 1
run tests/sanitize FAKE_BUILD=1
check 'tests/sanitize: a failed build is exit 1' exits 1
run tests/sanitize FAKE_CONFIGURE=1
check 'tests/sanitize: CMake refuses: exit 2' exits 2
run tests/sanitize -- -R 'a b'
check 'tests/sanitize: arguments reach ctest' called_with 'ctest [--test-dir]' '[-R] [a b]'
run tests/sanitize ZP_TSAN=OFF
check 'ZP_TSAN=OFF: exit 0' exits 0
check 'ZP_TSAN=OFF: one build' called_not '[--preset] [tsan]'
check 'ZP_TSAN=OFF: said' says 'data races NOT RUN'
run tests/sanitize ZP_TSAN=perhaps
check 'ZP_TSAN with a bad value: exit 2' exits 2
check 'ZP_TSAN with a bad value: one sentence' one_sentence
run tests/sanitize ZP_DRY_RUN=1
check 'tests/sanitize, dry run: exit 0' exits 0
check 'tests/sanitize, dry run: the second configuration' says '+ env CXX=clang++ CC=clang cmake --preset tsan'
check 'tests/sanitize, dry run: nothing is built' called_not '[--preset]'
run tests/sanitize FAKE_NO_SANITIZER=thread ZP_INSTALL=never
check 'clang without the runtime: goes on' exits 0
check 'clang without the runtime: the half is not called passed' says 'undefined behaviour passed, data races NOT RUN'

furnished apt-get
run tests/sanitize ZP_INSTALL=never
check 'no clang, never: the first half runs' exits 0
check 'no clang, never: a banner' says 'data races are NOT looked for (a thread sanitizer (clang++ >= 14 with libomp) is missing, and ZP_INSTALL=never forbids'
check 'no clang, never: the line for the administrator' says 'apt-get install -y --no-install-recommends clang libomp-dev libclang-rt-dev'
check 'no clang, never: not green by accident' says 'data races NOT RUN'
check 'no clang, never: no second build' called_not '[--preset] [tsan]'
run tests/sanitize ZP_INSTALL=never ZP_TSAN=ON
check 'no clang, never, ON: exit 3' exits 3
check 'no clang, never, ON: one sentence' one_sentence
check 'no clang, never, ON: names it' complains 'tests/sanitize: missing: a thread sanitizer'
run tests/sanitize ZP_INSTALL=never FAKE_NO_SANITIZER=all
check 'no address sanitizer: exit 3' exits 3
check 'no address sanitizer: names it' complains 'missing: the address sanitizer of '

furnished apt-get
run tests/sanitize
check 'clang is installed: exit 0' exits 0
check 'clang is installed: its packages' called_with '[install] [-y]' '[clang] [libomp-dev] [libclang-rt-dev]'
check 'clang is installed: and used' says 'data races passed'
furnished apt-get apt-cache
run tests/sanitize FAKE_KNOWN=100
check 'the runtime has no package of its own: left out' called_not '[libclang-rt-dev] ['
check 'the runtime has no package of its own: exit 0' exits 0
run tests/run
check 'tests/run needs no sanitizer' called_not '[clang]'

# ---------------------------------------------------------------- the GPU

with_gpu() { # TOOLS...
  furnished timeout "$@"
  for tool in paste cp; do ln -sf "$(command -v "$tool")" "$box/$tool"; done
  mkdir -p "$site/build/gpu/tests/cuda"
  cp "$stock/true" "$site/build/gpu/tests/cuda/test_cuda"
  cp "$stock/zeroproof-bench-device" "$site/build/gpu/zeroproof-bench-device"
}
passed_steps() { [ "$(grep -c ' passed$' "$site/build/gpu/report/summary.txt")" = "$1" ]; }
with_gpu compute-sanitizer
run tests/gpu
check 'tests/gpu: exit 0' exits 0
check 'tests/gpu: a build of its own, with CUDA' called_with 'cmake [--preset] [gpu]' '[-DZP_CUDA=ON]'
check 'tests/gpu: the tests that need a GPU' called_with 'ctest [--test-dir]' '[-L] [gpu] [-LE] [slow]'
check 'tests/gpu: those with all inputs' called_with 'ctest [--test-dir]' '[-L] [gpu] [-L] [slow]'
check 'tests/gpu: what needs no GPU is left out, aloud' says 'not run: nothing of it needs a GPU'
check 'tests/gpu: steps on device twins' called_with 'zeroproof [verify] [byte_gpt_tiny] [--twin] [device,device-fused,device-graph]' '[--stage] [0,1,2,3]'
check 'tests/gpu: NCCL with one rank' called_with 'zeroproof [verify]' '[--world] [self] [--wires] [nccl]'
check 'tests/gpu: NCCL with four processes' called_with 'zeroproof [verify]' '[--world] [nccl:4]'
check 'tests/gpu: which may share the device' called 'sharing is 1'
check 'tests/gpu: sockets between them are not needed then' called_not 'mpirun [-n]'
check 'tests/gpu: four tools look at the kernels' [ "$(grep -c '^compute-sanitizer \[--tool\]' "$state/calls")" = 4 ]
check 'tests/gpu: state elsewhere' called_with 'zeroproof [verify]' '[--offload] [0.4,1]' '[--offload-grads] [off,on]'
check 'tests/gpu: state in fewer bits' called_with 'zeroproof [verify]' '[--recipe] [adamw+exp_avg_dtype:e4m3'
check 'tests/gpu: parameters of 8 bits' called_with 'zeroproof [verify]' '[--recipe] [fp8-current]'
check 'tests/gpu: a table of all steps' passed_steps 24
check 'tests/gpu: nothing is measured' called_not 'zeroproof-bench-device'
check 'tests/gpu: what to do next is last' last_word_is_next
run tests/gpu -- check
check 'tests/gpu check: the same' passed_steps 24
run tests/gpu FAKE_SCALES=4
check 'tests/gpu: an error of the device is exit 1' exits 1
check 'tests/gpu: it is looked for once more' called_with 'compute-sanitizer [--tool] [memcheck]' '[verify] [byte_gpt_tiny]' '[--recipe] [fp8-current]'
check 'tests/gpu: which has a line of its own' says 'fp8-current-why'
run tests/gpu FAKE_SCALES=1
check 'tests/gpu: a difference is named already' called_not '[--print-limit]'
run tests/gpu FAKE_SANITIZER=9
check 'tests/gpu: a finding of a tool is exit 1' exits 1
check 'tests/gpu: and is named' says 'FAILED (exit status 9)'
run tests/gpu FAKE_LATE=ctest -- --out "$work/a report"
check 'tests/gpu: a step without end is exit 1' exits 1
check 'tests/gpu: its limit is named' says 'FAILED (not done in 120 s)'
check 'tests/gpu: the steps after it run' says 'racecheck'
check 'tests/gpu: --out takes the logs' [ -e "$work/a report/stages.log" ]
run tests/gpu FAKE_NCCL=3
check 'NCCL refuses: the whole does not fail' exits 0
check 'NCCL refuses: said why' says 'refused (exit status 3): NCCL takes one rank for each device'
check 'NCCL refuses: the processes pass for machines' called_with 'mpirun [-n] [2]' '[nccl:2]'
run tests/gpu FAKE_NCCL=1
check 'NCCL is wrong: exit 1' exits 1
check 'NCCL is wrong: nothing else is tried' called_not 'mpirun [-n]'
with_gpu
rm "$box/mpirun"
run tests/gpu ZP_MPI=OFF
check 'no compute-sanitizer: said in the table' says 'not run: compute-sanitizer is not on PATH'
check 'no mpirun: said in the table' says 'not run: mpirun is not on PATH'
check 'no mpirun: exit 0' exits 0
run tests/gpu FAKE_BUILD=1
check 'tests/gpu: a failed build is exit 1' exits 1
built=$site/build/elsewhere
mkdir -p "$built"
cp "$site/build/gpu/zeroproof" "$stock/zeroproof-bench-device" "$built/" 2>/dev/null || cp "$stock/zeroproof" "$stock/zeroproof-bench-device" "$built/"
run tests/gpu -- --built "$built"
check 'tests/gpu --built: exit 0' exits 0
check 'tests/gpu --built: nothing is configured or built' called_not 'cmake ['
check 'tests/gpu --built: the tests of that build' called_with 'ctest [--test-dir]' '/build/elsewhere]'
run tests/gpu -- --built "$work/nowhere"
check 'tests/gpu --built, no build there: exit 2' exits 2
check 'tests/gpu --built, no build there: one sentence' one_sentence
run tests/gpu FAKE_LATE=ctest -- --seconds 6
check 'tests/gpu --seconds: a step has what is left' says 'FAILED (not done in 6 s)'
run tests/gpu -- --seconds 0
check 'tests/gpu --seconds 0: exit 2' exits 2
check 'tests/gpu --seconds 0: one sentence' one_sentence
run tests/gpu -- --everything
check 'tests/gpu, no such option: exit 2' exits 2
check 'tests/gpu, no such option: one sentence' one_sentence
run tests/gpu -- --out
check 'tests/gpu, --out alone: exit 2' exits 2
run tests/gpu -- check measure
check 'tests/gpu, two jobs: exit 2' exits 2
check 'tests/gpu, two jobs: one sentence' one_sentence
with_gpu
run tests/gpu ZP_DRY_RUN=1
check 'tests/gpu, dry run: exit 0' exits 0
check 'tests/gpu, dry run: shows the steps' says " verify 'op/*/device/*' --report"
check 'tests/gpu, dry run: nothing ran' called_not '[verify]'
run tests/gpu ZP_DRY_RUN=1 -- measure
check 'tests/gpu measure, dry run: shows the program' says "/zeroproof-bench-device' --json"
with_gpu python3
run tests/gpu -- measure
check 'tests/gpu measure: exit 0' exits 0
check 'tests/gpu measure: builds what it needs' called_with 'cmake [--build]' '[--target] [zeroproof] [zeroproof-bench-device]'
check 'tests/gpu measure: the record' called_with 'zeroproof-bench-device [--json]' '/bench-device.json]'
check 'tests/gpu measure: its table is shown' says 'rows of a benchmark'
check 'tests/gpu measure: PyTorch' called_with 'python3 [-B]' '/torch_peer.py] [--json]'
check 'tests/gpu measure: no tests' called_not 'ctest ['
check 'tests/gpu measure: a table of all steps' passed_steps 3
run tests/gpu FAKE_BENCH=3 -- measure
check 'tests/gpu measure without a device: said why' says 'refused (exit status 3): no device answers'
run tests/gpu FAKE_BENCH=1 -- measure
check 'tests/gpu measure, wrong bits: exit 1' exits 1
with_gpu
run tests/gpu -- measure
check 'tests/gpu measure without python3: said' says 'not run: python3 is not on PATH'

# ---------------------------------------------------------------- sourcing

furnished
# shellcheck disable=SC2016  # expanded by the inner shell
printf '%s\n' '#!/bin/sh' 'set -eu' 'zp_root=$1 zp_name=x zp_scope=cli' 'set | sed -e "/^_=/d" >"$STATE/before"' \
  '. "$1/common/setup.sh"' '. "$1/common/setup.sh"' \
  'set | sed -e "/^_=/d" >"$STATE/after"' 'test "$(cat "$STATE/before")" = "$(cat "$STATE/after")"' \
  'zp_options; zp_find; zp_find; echo "again: $zp_missing."' >"$box/sourcing"
chmod +x "$box/sourcing"
run sourcing -- "$site"
check 'sourced twice under set -eu: works, and sets nothing' exits 0
check 'looking twice finds the same' says 'again: .'
check 'sourcing changes no file' nothing_built

# ---------------------------------------------------------------- the real tools

# With what built the project, a project of one file: sees that CMake and the compiler agree.
real() {
  script=$1
  shift
  status=0
  (CDPATH='' cd -- "$site" && PATH=$real_path ZP_INSTALL=never ZP_OFFLINE=1 ZP_DRY_RUN=0 ZP_CUDA=AUTO ZP_MPI=OFF ZP_JOBS=1 "$script" "$@") \
    >"$work/out" 2>"$work/err" </dev/null || status=$?
}
fresh
cat >"$site/CMakePresets.json" <<'JSON'
{"version": 6, "configurePresets": [{"name": "cpu", "generator": "Ninja", "binaryDir": "${sourceDir}/build"}]}
JSON
cat >"$site/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(toy LANGUAGES CXX)
message(STATUS "toy: ${ZP_TESTS} ${ZP_CUDA} ${ZP_MPI}")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
file(GLOB sources CONFIGURE_DEPENDS main.cpp) # as the project does: ninja then looks at the build files first
add_executable(zeroproof ${sources})
add_custom_target(everything)
add_custom_target(zeroproof-faults)
add_custom_target(zeroproof-sim)
add_custom_target(test_faults)
if(ZP_TESTS)
  enable_testing()
  add_test(NAME good COMMAND zeroproof)
  add_test(NAME bad COMMAND zeroproof fail)
  set_tests_properties(bad PROPERTIES LABELS slow)
endif()
CMAKE
cat >"$site/main.cpp" <<'CXX'
#include <cstdio>
#include <cstring>
int main(int count, char** words) {
  for (int i = 1; i < count; ++i) std::printf("[%s]\n", words[i]);
  return count > 1 && std::strcmp(words[1], "fail") == 0;
}
CXX
real verification/run
if [ "$status" = 3 ]; then
  echo "skip  the real tools: $(tail -n 1 "$work/err")"
else
  check 'real tools, verification/run: exit 0' exits 0
  check 'real tools, verification/run: the options arrive' grep -q 'toy: OFF AUTO OFF' "$site/build/setup/configure-cpu.log"
  check 'real tools, verification/run: at most 30 lines of set-up' [ "$(wc -l <"$work/out")" -le 30 ]
  check 'real tools, verification/run: says how much is built' grep -q 'compilers at once: .*done, 2 of 2 steps in' "$work/out"
  check 'real tools, verification/run: the tool ran' says "[text,json:$site/build/report/verify.json]"
  real tests/run
  check 'real tools, tests/run: exit 0, the slow test left out' exits 0
  check 'real tools, tests/run: nobody holds the lock of the run before' says_not 'another run is building'
  check 'real tools, tests/run: one test ran' says 'tests passed, 0 tests failed out of 1'
  real tests/run -L slow
  check 'real tools, tests/run -L slow: the failing test is exit 1' exits 1
  real tests/run -R no-such-test
  check 'real tools, tests/run: nothing to run is exit 1' exits 1
  mv "$site" "$work/moved é"
  site="$work/moved é"
  real tests/run
  check 'real tools, the checkout was moved: exit 0' exits 0
  check 'real tools, the checkout was moved: says so' says 'configuring afresh'
fi

printf '%s checks, %s failed\n' "$checks" "$failed"
[ "$failed" = 0 ]
