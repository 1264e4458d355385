# shellcheck shell=sh
# Finds what a build of zeroproof needs, installs what is missing, configures and builds.
#
# Sourced by verification/run, tests/run, tests/sanitize and tests/style, which first set
#   zp_root   the checkout (absolute path)
#   zp_name   their own name, the prefix of every error
#   zp_scope  "cli" (what the command line tool needs), "tests" (that and what the tests need),
#             "sanitize" (that and the sanitizers) or "style" (that and the tools that look at the sources)
# Sourcing only defines functions; zp_setup, zp_configure and zp_build do the work, on the preset
# zp_preset ("cpu" if unset) in the folder zp_tree ("build").
#
# Environment (an empty value counts as unset):
#   ZP_INSTALL=auto|never   may packages be installed? (auto)
#   ZP_OFFLINE=0|1          1: never touch the network
#   ZP_CUDA=AUTO|ON|OFF     handed to CMake (AUTO: take it if there)
#   ZP_MPI=AUTO|ON|OFF      handed to CMake; OFF also means: do not install it
#   ZP_YAML=AUTO|ON|OFF     the same, for the library that reads quantization rules
#   ZP_TSAN=AUTO|ON|OFF     the thread sanitizer, which needs clang: take it if it can be had, demand
#                           it, or leave it out (tests/sanitize only)
#   ZP_NIGHTLY=0|1          1: also what is not run for every change
#   ZP_JOBS=n               parallel compilers and tests (all cores)
#   ZP_DRY_RUN=0|1          1: print the commands, change nothing
#   CXX                     the compiler (the first suitable one)
#
# Exit codes: 2 an option has a bad value or CMake refused the configuration, 3 something is missing
# and could not be installed. Every such end is one sentence, the last on standard error; what apt-get
# or CMake said stands before it.

zp_root=${zp_root:?set by the script that sources this one}
zp_name=${zp_name:?set by the script that sources this one}
zp_scope=${zp_scope:?set by the script that sources this one}

# shellcheck source=SCRIPTDIR/progress.sh disable=SC1091
. "$zp_root/common/progress.sh"

# ---------------------------------------------------------------- words

zp_say() { printf '%s\n' "$*"; }

# --help of the scripts: the same variables everywhere.
zp_help_environment() {
  cat <<'HELP'
Environment (an empty value counts as unset):
  ZP_INSTALL=auto|never   may packages be installed? (auto)
  ZP_OFFLINE=0|1          1: never touch the network
  ZP_CUDA=AUTO|ON|OFF     compile the device twins (AUTO: where there is nvcc)
  ZP_MPI=AUTO|ON|OFF      ranks as processes (AUTO: where MPI can be had)
  ZP_YAML=AUTO|ON|OFF     rules of quantization (AUTO: where yaml-cpp can be had)
  ZP_JOBS=N               parallel compilers and tests (all cores)
  ZP_DRY_RUN=0|1          1: print the commands, change nothing
  CXX                     the compiler (the first suitable one)
  NO_COLOR                no colours, whatever the terminal
HELP
}

zp_die() { # status, sentence
  printf '%s: %s\n' "$zp_name" "$2" >&2
  exit "$1"
}

# A path as the user would type it from where they stand.
zp_show() {
  case "$(pwd -P)" in
    "$zp_root") printf '%s' "${1#"$zp_root"/}" ;;
    *) zp_quote "$1" ;;
  esac
}

# The words of a command, quoted so that the line can be pasted into a shell.
zp_quote() {
  zp_quote_gap=
  for zp_quote_word in "$@"; do
    printf '%s' "$zp_quote_gap"
    case $zp_quote_word in
      '' | *[!A-Za-z0-9_./:=,+@%-]*)
        # the x keeps trailing newlines through $(...)
        zp_quote_word=$(printf '%sx' "$zp_quote_word" | sed "s/'/'\\\\''/g")
        printf "'%s'" "${zp_quote_word%x}"
        ;;
      *) printf '%s' "$zp_quote_word" ;;
    esac
    zp_quote_gap=' '
  done
}

# Runs a command, or under ZP_DRY_RUN=1 prints it.
zp_do() {
  if [ "$zp_dry_run" = 1 ]; then
    zp_say "+ $(zp_quote "$@")"
  else
    "$@"
  fi
}

zp_paint() { # colour number, text; plain unless a person at a terminal wants colour
  if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    printf '\033[%sm%s\033[0m' "$1" "$2"
  else
    printf '%s' "$2"
  fi
}

# ---------------------------------------------------------------- options

zp_one_of() { # name, value, allowed values...
  zp_option_name=$1 zp_option_value=$2
  shift 2
  for zp_option_allowed in "$@"; do
    [ "$zp_option_value" = "$zp_option_allowed" ] && return 0
  done
  zp_die 2 "$zp_option_name is '$zp_option_value' (it decides what gets set up, so no guess is made); give one of: $*"
}

zp_cores() {
  nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1
}

zp_options() {
  zp_may_install=${ZP_INSTALL:-auto}
  zp_offline=${ZP_OFFLINE:-0}
  zp_cuda=${ZP_CUDA:-AUTO}
  zp_mpi=${ZP_MPI:-AUTO}
  zp_yaml=${ZP_YAML:-AUTO}
  zp_tsan=${ZP_TSAN:-AUTO}
  zp_tsan_name='a thread sanitizer (clang++ >= 14 with libomp)'
  zp_dry_run=${ZP_DRY_RUN:-0}
  zp_nightly=${ZP_NIGHTLY:-0}
  zp_jobs=${ZP_JOBS:-$(zp_cores)}
  zp_one_of ZP_INSTALL "$zp_may_install" auto never
  zp_one_of ZP_OFFLINE "$zp_offline" 0 1
  zp_one_of ZP_NIGHTLY "$zp_nightly" 0 1
  zp_one_of ZP_CUDA "$zp_cuda" AUTO ON OFF
  zp_one_of ZP_MPI "$zp_mpi" AUTO ON OFF
  zp_one_of ZP_YAML "$zp_yaml" AUTO ON OFF
  zp_one_of ZP_TSAN "$zp_tsan" AUTO ON OFF
  zp_one_of ZP_DRY_RUN "$zp_dry_run" 0 1
  case $zp_jobs in
    0* | *[!0-9]* | ????*)
      zp_die 2 "ZP_JOBS is '$zp_jobs' (it is the number of compilers run at once); give a whole number from 1 to 999"
      ;;
  esac
}

# ---------------------------------------------------------------- the build directory

# One value from the build's CMake cache; nothing if there is no cache or no such entry.
zp_cached() {
  [ -f "${zp_tree:-$zp_root/build}/CMakeCache.txt" ] || return 0
  sed -n "s/^$1:[A-Z]*=//p" "${zp_tree:-$zp_root/build}/CMakeCache.txt"
}

# Everything this script writes goes below build/, so that is where lack of permission shows.
zp_workspace() {
  zp_logs=$zp_root/build/setup
  zp_unwritable="cannot write to $zp_root/build (the build and its logs go there); make it writable for $(id -un 2>/dev/null || echo this user), or use a checkout that is"
  if [ "$zp_dry_run" = 1 ]; then
    zp_workspace_at=$zp_root
    if [ -e "$zp_root/build" ]; then zp_workspace_at=$zp_root/build; fi
    if ! [ -d "$zp_workspace_at" ] || ! [ -w "$zp_workspace_at" ]; then
      zp_die 3 "$zp_unwritable"
    fi
    [ -d "$zp_logs" ] || zp_do mkdir -p "$zp_logs"
    return 0
  fi
  if ! mkdir -p "$zp_logs" 2>/dev/null || ! (: >"$zp_logs/lock") 2>/dev/null; then
    zp_die 3 "$zp_unwritable"
  fi
  # Two runs in one checkout would have two ninjas write the same files: the second one waits.
  # The lock belongs to the open file, so nothing stale remains after a crash.
  if command -v flock >/dev/null 2>&1; then
    exec 9>"$zp_logs/lock"
    if ! flock -n 9; then
      zp_say "another run is building in this checkout: waiting for it"
      flock 9
    fi
  fi
}

zp_release() {
  [ "$zp_dry_run" = 1 ] || exec 9>&-
}

# ---------------------------------------------------------------- finding things

zp_at_least() { # version, major, minor
  zp_version=${1%%[!0-9.]*}
  zp_major=${zp_version%%.*}
  zp_minor=${zp_version#*.}
  zp_minor=${zp_minor%%.*}
  case $zp_major$zp_minor in '' | *[!0-9]*) return 1 ;; esac
  [ "$zp_major" -gt "$2" ] || { [ "$zp_major" -eq "$2" ] && [ "${zp_minor:-0}" -ge "$3" ]; }
}

# CXX may be a program, a path with spaces, or a program with arguments ("ccache g++").
zp_cxx_program() {
  if command -v "$1" >/dev/null 2>&1; then
    command -v "$1"
  else
    command -v "${1%% *}" 2>/dev/null || true
  fi
}

zp_run_cxx() { # compiler, arguments...
  zp_run_cxx_name=$1
  shift
  if command -v "$zp_run_cxx_name" >/dev/null 2>&1; then
    "$zp_run_cxx_name" "$@"
  else
    # shellcheck disable=SC2086  # a compiler with arguments is meant to be split
    $zp_run_cxx_name "$@"
  fi
}

# The folders besides the compiler's own in which CMake would look for headers: below .deps/
# and CMAKE_PREFIX_PATH, and beside the folders of PATH. One per line.
zp_header_dirs() {
  printf '%s\n' "$zp_root/.deps/include" "$zp_root/.deps/include/eigen3"
  (
    set -f
    IFS=:
    for zp_dir in ${CMAKE_PREFIX_PATH:-}; do
      [ -z "$zp_dir" ] || printf '%s\n%s\n' "$zp_dir/include" "$zp_dir"
    done
    for zp_dir in ${PATH:-}; do
      case $zp_dir in
        /bin | /sbin | /usr/bin | /usr/sbin) ;; # the compiler knows these
        */bin | */sbin) printf '%s\n' "${zp_dir%/*}/include" ;;
      esac
    done
  )
}

# Asks one compiler about itself and about every header in one run of its preprocessor: that
# sees exactly what a compile would see (CPATH, multiarch folders, a cross compiler's root).
# Prints lines "NAME WORDS...".
zp_ask_compiler() {
  zp_ask_cxx=$1
  set -- -E -x c++
  while IFS= read -r zp_dir; do
    if [ -d "$zp_dir" ]; then set -- "$@" -idirafter "$zp_dir"; fi
  done <<DIRS
$(zp_header_dirs)
DIRS
  # Macros from other files come out on lines of their own, so the answers are joined and cut again.
  zp_run_cxx "$zp_ask_cxx" "$@" - 2>/dev/null <<'SOURCE' | sed -e '1,/^zp_start/d' -e '/^#/d' | tr '\n' ' ' | sed 's/ zp_end */\
/g'
#define EIGEN_CORE_MODULE_H  // newer releases refuse to have their inner headers read alone
#if __has_include(<Eigen/Version>)
#include <Eigen/Version>
#elif __has_include(<eigen3/Eigen/Version>)
#include <eigen3/Eigen/Version>
#elif __has_include(<Eigen/src/Core/util/Macros.h>)
#include <Eigen/src/Core/util/Macros.h>
#elif __has_include(<eigen3/Eigen/src/Core/util/Macros.h>)
#include <eigen3/Eigen/src/Core/util/Macros.h>
#endif
zp_start
#if defined(__clang__)
compiler clang __clang_major__ . __clang_minor__ . __clang_patchlevel__ zp_end
#elif defined(__GNUC__)
compiler gcc __GNUC__ . __GNUC_MINOR__ . __GNUC_PATCHLEVEL__ zp_end
#endif
#if __has_include(<span>)
stdlib yes zp_end
#endif
#if __has_include(<omp.h>)
openmp yes zp_end
#endif
#ifdef EIGEN_WORLD_VERSION
eigen EIGEN_WORLD_VERSION . EIGEN_MAJOR_VERSION . EIGEN_MINOR_VERSION zp_end
#endif
#if __has_include(<CLI/CLI.hpp>)
cli11 yes zp_end
#endif
#if __has_include(<nlohmann/json.hpp>)
json yes zp_end
#endif
#if __has_include(<toml++/toml.h>)
toml yes zp_end
#endif
#if __has_include(<yaml-cpp/eventhandler.h>)
yaml yes zp_end
#endif
#if __has_include(<xxhash.h>)
xxhash yes zp_end
#endif
#if __has_include(<fmt/format.h>)
fmt yes zp_end
#endif
#if __has_include(<doctest/doctest.h>) || __has_include(<doctest.h>)
doctest yes zp_end
#endif
SOURCE
}

# What the compiler said about one name, spaces removed: "12.2.0", "yes" or nothing.
zp_answer() {
  printf '%s\n' "$zp_answers" | sed -n "s/^ *$1 //p" | tr -d ' '
}

# Sets zp_cxx, zp_cxx_version and zp_answers if this compiler will do.
zp_try_compiler() {
  [ -n "$(zp_cxx_program "$1")" ] || return 1
  zp_answers=$(zp_ask_compiler "$1")
  zp_cxx_version=$(zp_answer compiler)
  case $zp_cxx_version in
    gcc*) zp_at_least "${zp_cxx_version#gcc}" 11 0 || return 1 ;;
    clang*) zp_at_least "${zp_cxx_version#clang}" 14 0 || return 1 ;;
    *) return 1 ;;
  esac
  # clang alone comes with neither
  [ "$(zp_answer stdlib)" = yes ] && [ "$(zp_answer openmp)" = yes ] || return 1
  zp_cxx=$1
}

zp_find_compiler() {
  zp_cxx='' zp_cxx_version='' zp_answers=''
  if [ -n "${CXX:-}" ]; then
    zp_try_compiler "$CXX" ||
      zp_die 2 "CXX is '$CXX', which is not a working g++ >= 11 or clang++ >= 14 with OpenMP (the sources are C++20, and the host kernels use threads); install it (clang needs libomp-dev too), or unset CXX to have one chosen"
    return 0
  fi
  # The compiler of the existing build first: a change means building everything again.
  zp_candidate=$(zp_cached CMAKE_CXX_COMPILER)
  if [ -n "$zp_candidate" ] && zp_try_compiler "$zp_candidate"; then return 0; fi
  for zp_candidate in c++ g++ clang++ \
    g++-15 g++-14 g++-13 g++-12 g++-11 \
    clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14; do
    if zp_try_compiler "$zp_candidate"; then return 0; fi
  done
  zp_cxx='' zp_cxx_version='' zp_answers=''
}

zp_lacks() { # what a person calls it, packages...
  zp_missing=${zp_missing:+$zp_missing, }$1
  shift
  zp_packages=${zp_packages:+$zp_packages }$*
}

# Fills in what is here (for the table) and what is not: zp_missing and zp_packages are what
# the build cannot do without, zp_mpi_missing says that MPI is wanted and not here.
zp_find() {
  zp_missing='' zp_packages='' zp_libraries=''
  zp_find_compiler
  [ -n "$zp_cxx" ] || zp_lacks 'a C++20 compiler (g++ >= 11 or clang++ >= 14)' g++

  zp_cmake_version=$(cmake --version 2>/dev/null | sed -n '1s/^cmake version //p') || true
  zp_at_least "$zp_cmake_version" 3 25 || zp_lacks "cmake >= 3.25${zp_cmake_version:+ (found $zp_cmake_version)}" cmake

  zp_ninja_version=
  for zp_candidate in ninja-build ninja samu; do # the names CMake knows
    if [ -z "$zp_ninja_version" ] && command -v "$zp_candidate" >/dev/null 2>&1; then
      zp_ninja_version=$("$zp_candidate" --version 2>/dev/null) || true
    fi
  done
  [ -n "$zp_ninja_version" ] || zp_lacks ninja ninja-build

  zp_eigen_version=$(zp_answer eigen)
  zp_at_least "$zp_eigen_version" 3 4 || zp_lacks_header "Eigen >= 3.4${zp_eigen_version:+ (found $zp_eigen_version)}" libeigen3-dev
  zp_need_header CLI11 libcli11-dev cli11
  zp_need_header nlohmann-json nlohmann-json3-dev json
  zp_need_header toml++ libtomlplusplus-dev toml
  zp_need_header xxHash libxxhash-dev xxhash
  zp_need_header fmt libfmt-dev fmt
  if [ "$zp_scope" != cli ]; then zp_need_header doctest doctest-dev doctest; fi

  zp_asan_under='' zp_tsan_missing='' zp_tsan_cxx='' zp_tsan_under=''
  if [ "$zp_scope" = sanitize ]; then zp_find_sanitizers; fi
  if [ "$zp_scope" = style ]; then
    for zp_candidate in clang-format clang-tidy clang++ shellcheck; do
      command -v "$zp_candidate" >/dev/null 2>&1 || zp_lacks "$zp_candidate" "${zp_candidate%++}"
    done
  fi

  zp_mpi_missing='' zp_mpi_version=''
  if [ "$zp_mpi" != OFF ]; then
    zp_launcher=$(command -v mpirun 2>/dev/null || command -v mpiexec 2>/dev/null) || true
    if [ -n "$zp_launcher" ] && command -v mpicxx >/dev/null 2>&1; then
      zp_mpi_version=$("$zp_launcher" --version 2>/dev/null </dev/null | sed -n \
        -e 's/^.*(Open *\(MPI\|RTE\)) \([0-9][^ ]*\).*$/Open MPI \2/p' -e 's/^ *Version: *\([0-9][^ ]*\).*$/MPICH \1/p' | sed 1q) || true
      zp_mpi_version=${zp_mpi_version:-$zp_launcher}
    else
      zp_mpi_missing=yes
    fi
  fi

  zp_yaml_missing=''
  if [ "$zp_yaml" != OFF ] && [ -z "$(zp_answer yaml)" ]; then zp_yaml_missing=yes; fi
}

# ---------------------------------------------------------------- sanitizers

# Whether this compiler makes programs with these sanitizers that also run here. Sets zp_under to the
# command they must be started with, if any: older sanitizers give up on kernels that scatter a program
# widely over its addresses, and setarch -R asks for no scattering.
zp_sanitizes() { # compiler, sanitizers
  zp_under=''
  [ "$zp_dry_run" = 0 ] || return 0 # nothing may be written, so a compiler is taken at its word
  rm -f "$zp_logs/probe"
  printf '%s\n' 'int main() { int n = 0;' '#pragma omp parallel reduction(+ : n)' 'n += 1; return n == 0; }' >"$zp_logs/probe.cpp"
  zp_run_cxx "$1" "-fsanitize=$2" -fopenmp -o "$zp_logs/probe" "$zp_logs/probe.cpp" >"$zp_logs/probe.log" 2>&1 || return 1
  # without the option the thread sanitizer now and then blames the OpenMP library itself
  set -- env TSAN_OPTIONS=ignore_noninstrumented_modules=1 "$zp_logs/probe"
  "$@" >>"$zp_logs/probe.log" 2>&1 && return 0
  zp_under="setarch $(uname -m) -R"
  # shellcheck disable=SC2086  # three words
  $zp_under "$@" >>"$zp_logs/probe.log" 2>&1
}

# Addresses and undefined behaviour with the compiler of every other build; threads with clang, whose
# OpenMP library tells the sanitizer what it synchronises (that of g++ does not, so every region would
# be reported).
zp_find_sanitizers() {
  if [ -n "$zp_cxx" ]; then
    case $zp_cxx_version in clang*) zp_runtime=libclang-rt-dev ;; *) zp_runtime=g++ ;; esac
    zp_sanitizes "$zp_cxx" address,undefined || zp_lacks "the address sanitizer of $zp_cxx" "$zp_runtime"
    # shellcheck disable=SC2034  # read by tests/sanitize
    zp_asan_under=$zp_under
  fi
  [ "$zp_tsan" != OFF ] || return 0
  for zp_candidate in "$zp_cxx" clang++ clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14; do
    [ -n "$(zp_cxx_program "${zp_candidate:-clang++}")" ] || continue
    zp_clang_answers=$(zp_ask_compiler "${zp_candidate:-clang++}")
    case $zp_clang_answers in *'compiler clang'*) ;; *) continue ;; esac
    case $zp_clang_answers in *'openmp yes'*) ;; *) continue ;; esac
    zp_sanitizes "${zp_candidate:-clang++}" thread || continue
    zp_tsan_cxx=${zp_candidate:-clang++} zp_tsan_under=$zp_under
    return 0
  done
  zp_tsan_missing=yes
}

zp_need_header() { # what a person calls it, package, the answer's name
  if [ -n "$(zp_answer "$3")" ]; then
    zp_libraries=${zp_libraries:+$zp_libraries, }$1
  else
    zp_lacks_header "$1" "$2"
  fi
}

# Without a compiler nobody can say which headers it will see. Their packages are asked for all
# the same (one that is there already is left alone), but they are not called missing.
zp_lacks_header() { # what a person calls it, package
  if [ -n "$zp_cxx" ]; then
    zp_lacks "$1" "$2"
  else
    zp_packages=${zp_packages:+$zp_packages }$2
  fi
}

# ---------------------------------------------------------------- installing

# Sets zp_installer to root, sudo or nothing; then zp_why_not says why.
zp_find_installer() {
  zp_installer='' zp_why_not=''
  if [ "$zp_may_install" = never ]; then
    zp_why_not='ZP_INSTALL=never forbids installing'
  elif [ "$zp_offline" = 1 ]; then
    zp_why_not='ZP_OFFLINE=1 forbids fetching'
  elif ! command -v apt-get >/dev/null 2>&1; then
    zp_why_not='there is no apt-get here to install with'
  elif [ "$(id -u)" = 0 ]; then
    zp_installer=root
  elif ! command -v sudo >/dev/null 2>&1; then
    zp_why_not='this user may not install packages'
  elif zp_do sudo -n true 2>/dev/null; then
    zp_installer=sudo
  else
    zp_why_not='this user may not install packages without a password'
  fi
}

# The rest of the sentence: what a person has to do.
zp_remedy() {
  if command -v apt-get >/dev/null 2>&1; then
    printf 'an administrator can run: apt-get update && apt-get install -y --no-install-recommends %s' "$1"
  else
    printf "install them with this system's package manager; Debian's names are: %s" "$1"
  fi
}

zp_apt() { # what is done, log, apt-get arguments...
  zp_apt_doing=$1 zp_apt_log=$2
  shift 2
  # sudo clears the environment, hence env; the messages are read below, hence LC_ALL
  set -- env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 "$@"
  if [ "$zp_installer" = sudo ]; then set -- sudo -n "$@"; fi
  if [ "$zp_dry_run" = 1 ]; then
    zp_do "$@"
    return 0
  fi
  if [ "$zp_installer" = sudo ]; then zp_say "running: $(zp_quote "$@")"; fi
  # apt's own time limit covers dpkg's lock only; the lists and the archive have theirs
  zp_apt_tries=0
  while ! zp_long "$zp_apt_doing" "$zp_apt_log" "$@" 9>&-; do
    zp_apt_tries=$((zp_apt_tries + 1))
    if [ "$zp_apt_tries" -ge 24 ] || ! grep -q 'Could not get lock' "$zp_apt_log"; then
      return 1
    fi
    [ "$zp_apt_tries" -gt 1 ] || zp_say 'another program is installing packages: waiting up to two minutes'
    sleep 5
  done
}

# Why apt-get failed, in the words of a person, from its logs.
zp_apt_reason() {
  if grep -q 'Could not get lock' "$zp_logs"/apt-install.log; then
    printf 'another program keeps the package database locked'
  elif grep -q -i -e 'no space left' -e 'enough free space' "$zp_logs"/apt-install.log; then
    printf 'the disk is full'
  elif grep -q -e 'Temporary failure resolving' -e 'Could not resolve' -e 'Could not connect' -e 'Cannot initiate the connection' \
    -e 'Connection timed out' -e 'Network is unreachable' -e 'Connection failed' "$zp_logs"/apt-*.log; then
    printf 'no package server could be reached'
  else
    printf 'apt-get failed'
  fi
}

# Since clang 14 Debian has the sanitizers' runtime in a package of its own; elsewhere it is part of clang.
zp_keep_known() { # packages...; sets zp_known
  zp_known=''
  for zp_package in "$@"; do
    if [ "$zp_package" = libclang-rt-dev ] && [ "$zp_dry_run" = 0 ] && command -v apt-cache >/dev/null 2>&1 &&
      ! apt-cache show "$zp_package" >/dev/null 2>&1; then
      continue
    fi
    zp_known="${zp_known:+$zp_known }$zp_package"
  done
}

zp_install() { # packages...; 1 and zp_why_not if that failed
  [ "$zp_dry_run" = 1 ] || zp_say "to install with apt-get, $# packages: $*"
  # A broken entry among the sources fails the update but need not matter: the install decides.
  zp_apt 'reading the package lists' "$zp_logs/apt-update.log" update || true
  zp_keep_known "$@"
  # shellcheck disable=SC2086  # a list of package names
  set -- $zp_known
  if ! zp_apt 'installing' "$zp_logs/apt-install.log" install -y --no-install-recommends "$@"; then
    zp_why_not=$(zp_apt_reason)
    return 1
  fi
  [ "$zp_dry_run" = 1 ] || hash -r
}

# Installs what is missing or ends. Without MPI, the thread sanitizer or yaml-cpp less is checked, but soundly, so
# under AUTO their absence costs one line, not the run.
zp_provide() {
  zp_banner=''
  [ -n "$zp_missing$zp_mpi_missing$zp_tsan_missing$zp_yaml_missing" ] || return 0
  zp_wanted=$zp_packages
  if [ -n "$zp_yaml_missing" ]; then zp_wanted="${zp_wanted:+$zp_wanted }libyaml-cpp-dev"; fi
  if [ -n "$zp_mpi_missing" ]; then zp_wanted="${zp_wanted:+$zp_wanted }libopenmpi-dev openmpi-bin"; fi
  if [ -n "$zp_tsan_missing" ]; then zp_wanted="${zp_wanted:+$zp_wanted }clang libomp-dev libclang-rt-dev"; fi
  zp_find_installer
  if [ -n "$zp_installer" ]; then
    # ccache only saves time, and tests that need Python or MPFR are skipped aloud without: nothing is installed for
    # their sake alone
    zp_extra=''
    if [ "$zp_scope" != cli ] && ! command -v ccache >/dev/null 2>&1; then zp_extra=ccache; fi
    if [ "$zp_scope" = tests ]; then
      zp_extra="$zp_extra python3-venv python3-dev python3-numpy python3-matplotlib python3-yaml libmpfr-dev"
    fi
    # shellcheck disable=SC2086  # a list of package names
    if zp_install $zp_wanted $zp_extra; then
      if [ "$zp_dry_run" = 1 ]; then
        zp_cxx=${zp_cxx:-g++} zp_tsan_cxx=${zp_tsan_cxx:-clang++} # what the commands to come would find
        return 0
      fi
      zp_find
      zp_why_not='apt-get installed what this system has, which is too old or incomplete'
      zp_still=yes
    else
      tail -n 12 "$zp_logs/apt-install.log" >&2
      zp_still=''
    fi
  else
    zp_still=''
  fi

  if [ -n "$zp_missing" ] || { [ -n "$zp_mpi_missing" ] && [ "$zp_mpi" = ON ]; } ||
    { [ -n "$zp_tsan_missing" ] && [ "$zp_tsan" = ON ]; } || { [ -n "$zp_yaml_missing" ] && [ "$zp_yaml" = ON ]; }; then
    if [ -n "$zp_yaml_missing" ]; then zp_missing="${zp_missing:+$zp_missing, }yaml-cpp"; fi
    if [ -n "$zp_mpi_missing" ]; then zp_missing="${zp_missing:+$zp_missing, }MPI"; fi
    if [ -n "$zp_tsan_missing" ]; then zp_missing="${zp_missing:+$zp_missing, }$zp_tsan_name"; fi
    if [ -n "$zp_still" ]; then
      zp_die 3 "missing: $zp_missing (the build needs it, and $zp_why_not); put a newer one first on PATH, or name a compiler with CXX"
    fi
    if [ -n "$zp_installer" ]; then
      zp_die 3 "missing: $zp_missing (the build needs it, and $zp_why_not); mend that and run this again, or install by other means: $zp_wanted"
    fi
    zp_die 3 "missing: $zp_missing (the build needs it, and $zp_why_not); $(zp_remedy "$zp_wanted")"
  fi
  if [ -n "$zp_tsan_missing" ]; then
    zp_banner="data races are NOT looked for ($zp_tsan_name is missing, and $zp_why_not)"
    if [ -n "$zp_installer" ]; then
      zp_banner="$zp_banner; ZP_TSAN=OFF stops the attempts"
    else
      zp_banner="$zp_banner; $(zp_remedy 'clang libomp-dev libclang-rt-dev')"
    fi
    zp_tsan=OFF
  fi
  if [ -n "$zp_mpi_missing" ]; then
    zp_banner="multi-process checks OFF (MPI is missing, and $zp_why_not)"
    # somebody who could not be served should not pay for the attempt on every run
    if [ -n "$zp_installer" ]; then
      zp_banner="$zp_banner; ZP_MPI=OFF stops the attempts"
    else
      zp_banner="$zp_banner; $(zp_remedy 'libopenmpi-dev openmpi-bin')"
    fi
    zp_mpi=OFF # as said, whatever is left of an earlier configuration
  fi
  if [ -n "$zp_yaml_missing" ]; then
    zp_banner="${zp_banner:+$zp_banner
}quantization rules OFF (yaml-cpp is missing, and $zp_why_not)"
    if [ -n "$zp_installer" ]; then
      zp_banner="$zp_banner; ZP_YAML=OFF stops the attempts"
    else
      zp_banner="$zp_banner; $(zp_remedy libyaml-cpp-dev)"
    fi
    zp_yaml=OFF
  fi
}

# ---------------------------------------------------------------- the table

zp_row() { # capability, state, detail
  case $2 in
    ok) zp_colour=32 ;;
    missing) zp_colour=31 ;;
    *) zp_colour=33 ;;
  esac
  printf '%-12s' "$1"
  zp_paint "$zp_colour" "$(printf '%-8s' "$2")"
  printf '%s\n' "${3:-}"
}

zp_state_row() { # capability, its version or nothing
  if [ -n "$2" ]; then zp_row "$1" ok "$2"; else zp_row "$1" missing; fi
}

zp_table() {
  printf '%-12s%-8s%s\n' capability state detail
  case $zp_cxx_version in
    gcc*) zp_row compiler ok "g++ ${zp_cxx_version#gcc} ($zp_cxx)" ;;
    clang*) zp_row compiler ok "clang++ ${zp_cxx_version#clang} ($zp_cxx)" ;;
    *) zp_row compiler missing ;;
  esac
  zp_state_row cmake "$zp_cmake_version"
  zp_state_row ninja "$zp_ninja_version"
  if [ -n "$zp_cxx" ]; then
    zp_state_row eigen "$zp_eigen_version"
    zp_state_row libraries "$zp_libraries"
  else
    zp_row eigen unknown 'no compiler to ask'
    zp_row libraries unknown 'no compiler to ask'
  fi
  if command -v ccache >/dev/null 2>&1; then zp_row ccache ok; else zp_row ccache none 'builds take longer the second time'; fi
  if [ -n "$zp_mpi_version" ]; then
    zp_row mpi ok "$zp_mpi_version"
  elif [ "$zp_mpi" = OFF ]; then
    zp_row mpi off 'ranks are threads of one process'
  else
    zp_row mpi missing
  fi
  if [ -n "$(zp_answer yaml)" ]; then
    zp_row yaml ok
  elif [ "$zp_yaml" = OFF ]; then
    zp_row yaml off 'rules of quantization are not read'
  else
    zp_row yaml missing
  fi
  if [ "$zp_scope" = sanitize ]; then
    if [ -n "$zp_tsan_cxx" ]; then
      zp_row tsan ok "$zp_tsan_cxx${zp_tsan_under:+, started by $zp_tsan_under}"
    elif [ "$zp_tsan" = OFF ]; then
      zp_row tsan off 'data races are not looked for'
    else
      zp_row tsan missing
    fi
  fi
  zp_table_cuda
}

# Only told, never acted on: which toolkit is used, and whether, is CMake's decision.
zp_table_cuda() {
  if [ "$zp_cuda" = OFF ]; then
    zp_row cuda off 'ZP_CUDA=OFF'
    return 0
  fi
  for zp_candidate in "${CUDACXX:-nvcc}" nvcc "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"; do
    if command -v "$zp_candidate" >/dev/null 2>&1; then
      zp_row cuda ok "$(command -v "$zp_candidate") (compiles; the doctor says whether it can run)"
      return 0
    fi
  done
  zp_row cuda none 'no nvcc: nothing is compiled for a GPU'
}

# ---------------------------------------------------------------- the steps

zp_setup() {
  zp_options
  zp_workspace
  zp_find
  if [ "$zp_dry_run" = 1 ]; then
    zp_table
    zp_provide
  else
    zp_provide
    zp_table
  fi
  if [ -n "$zp_banner" ]; then
    zp_paint 33 "$zp_banner"
    echo
  fi
}

zp_real() { # a path without links; nothing if it is not there
  [ -e "$1" ] || return 0
  readlink -f -- "$1" 2>/dev/null || printf '%s' "$1"
}

# Sets zp_stale to the reason why CMake would refuse the existing build or ignore what was
# asked for; empty if it is good to use.
zp_judge_build() {
  zp_stale=''
  zp_tree=${zp_tree:-$zp_root/build}
  [ -f "$zp_tree/CMakeCache.txt" ] || return 0
  zp_home=$(zp_cached CMAKE_HOME_DIRECTORY)
  zp_place=$(zp_cached CMAKE_CACHEFILE_DIR)
  zp_generator=$(zp_cached CMAKE_GENERATOR)
  zp_compiler=$(zp_cached CMAKE_CXX_COMPILER)
  if [ -n "$zp_home" ] && [ "$(zp_real "$zp_home")" != "$zp_root" ]; then
    zp_stale="it belongs to $zp_home"
  elif [ -n "$zp_place" ] && [ "$(zp_real "$zp_place")" != "$(zp_real "$zp_tree")" ]; then
    zp_stale="it was made in $zp_place"
  elif [ -n "$zp_generator" ] && [ "$zp_generator" != Ninja ]; then
    zp_stale="it was made for $zp_generator, not for Ninja"
  elif [ -n "$zp_compiler" ] && [ "${zp_compiler%-NOTFOUND}" = "$zp_compiler" ]; then
    zp_asked=$(zp_cxx_program "$zp_cxx")
    if [ "$zp_compiler" != "$zp_asked" ] && [ "$(zp_real "$zp_compiler")" != "$(zp_real "$zp_asked")" ]; then
      zp_stale="it uses $zp_compiler"
    fi
  fi
}

zp_configure() { # ZP_TESTS: ON, OFF, or keep (stay ON where it is ON); more arguments of cmake
  zp_tests=$1
  shift
  zp_judge_build
  if [ "$zp_tests" = keep ]; then
    zp_tests=OFF
    if [ -z "$zp_stale" ] && [ "$(zp_cached ZP_TESTS)" = ON ]; then zp_tests=ON; fi
  fi
  set -- cmake --preset "${zp_preset:-cpu}" -S "$zp_root" -DZP_TESTS="$zp_tests" -DZP_CUDA="$zp_cuda" -DZP_MPI="$zp_mpi" -DZP_YAML="$zp_yaml" "$@"
  if [ -n "$zp_stale" ]; then
    zp_say "the existing ${zp_tree#"$zp_root"/}/ cannot be used as it is ($zp_stale): configuring afresh"
    set -- "$@" --fresh
  fi
  # A compiler with its version in its name can come without a cc beside it.
  if [ -z "${CC:-}" ] && ! command -v cc >/dev/null 2>&1 && ! command -v gcc >/dev/null 2>&1; then
    case $zp_cxx in
      *clang++*) set -- CC="${zp_cxx%clang++*}clang${zp_cxx##*clang++}" "$@" ;;
      *g++*) set -- CC="${zp_cxx%g++*}gcc${zp_cxx##*g++}" "$@" ;;
    esac
  fi
  set -- env CXX="$zp_cxx" "$@"
  zp_configure_log=$zp_logs/configure-${zp_preset:-cpu}.log
  zp_long 'configuring' "$zp_configure_log" "$@" || {
    zp_long_failed "$zp_configure_log"
    zp_die 2 "cmake could not configure the build (nothing was built); its own message above says why"
  }
}

zp_build() { # status of a failed build, cmake --build arguments...
  zp_build_failed=$1
  shift
  zp_build_log=$zp_logs/build-${zp_preset:-cpu}.log
  zp_building="building with $zp_jobs compilers at once:"
  # the lock is ours, not that of a compiler server somebody left running
  zp_long "$zp_building" "$zp_build_log" \
    cmake --build "${zp_tree:-$zp_root/build}" --parallel "$zp_jobs" "$@" 9>&- || {
    zp_long_failed "$zp_build_log"
    zp_die "$zp_build_failed" "the build failed (no result can be trusted from a part of it); the first error above says where"
  }
}

# Open MPI's defaults refuse root and more ranks than cores: settings for many ranks on one small machine. It does not
# yield, our communicators do, between looks. What is set already stays.
zp_mpi_environment() {
  : "${OMPI_ALLOW_RUN_AS_ROOT:=1}" "${OMPI_ALLOW_RUN_AS_ROOT_CONFIRM:=1}"
  : "${OMPI_MCA_rmaps_base_oversubscribe:=1}" "${OMPI_MCA_mpi_yield_when_idle:=0}"
  : "${OMPI_MCA_btl_vader_single_copy_mechanism:=none}"
  export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
  export OMPI_MCA_rmaps_base_oversubscribe OMPI_MCA_mpi_yield_when_idle OMPI_MCA_btl_vader_single_copy_mechanism
}
