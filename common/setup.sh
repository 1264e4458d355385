# shellcheck shell=sh disable=SC2016,SC2034,SC2086,SC2154  # lists of words; variables of others
# Installs missing packages, configures and builds. Sourced by verification/run, tests/run,
# tests/style, tests/sanitize and tests/gpu, which first set
#   zp_root, zp_name     the checkout (absolute path); their own name, the prefix of every error
#   zp_scope             scopes of common/packages.txt that they need besides "build"
#   zp_preset, zp_tree   preset and build folder, if not "cpu" and build/
# Exit codes: 2 a bad value, or a configuration that CMake refuses; 3 a required package is missing.
zp_help_environment() {
  cat <<'HELP'
Environment (an empty value counts as unset):
  ZP_INSTALL=auto|never   install missing packages with apt-get (auto)
  ZP_OFFLINE=0|1          1: no network, so nothing is installed
  ZP_CUDA=AUTO|ON|OFF     compile for GPUs (AUTO: if nvcc is found)
  ZP_MPI=AUTO|ON|OFF      ranks as processes (AUTO: if MPI is found or can be installed)
  ZP_YAML=AUTO|ON|OFF     quantization rules (AUTO: if yaml-cpp is found or can be installed)
  ZP_JOBS=N               parallel compilers and tests (all cores)
  ZP_DRY_RUN=0|1          1: print the commands, change nothing
  CI=true                 packages of the gate are required; otherwise tests without theirs are skipped
  CXX                     the compiler (the first that works)
HELP
}
zp_say() { printf '%s\n' "$*"; }
zp_die() { # exit status, sentence
  printf '%s: %s\n' "$zp_name" "$2" >&2
  exit "$1"
}
zp_show() { # a path below the checkout, relative if that is the working directory
  case "$(pwd -P)" in "$zp_root") zp_quote "${1#"$zp_root"/}" ;; *) zp_quote "$1" ;; esac
}
zp_quote() { # the words of a command, to be pasted into a shell
  for zp_word in "$@"; do
    case $zp_word in
      '' | *[!A-Za-z0-9_./:=,+@%-]*) zp_word="'$(zp_say "$zp_word" | sed "s/'/'\\\\''/g")'" ;;
    esac
    printf '%s ' "$zp_word"
  done | sed 's/ $//'
}
zp_do() { # runs a command; prints it in a dry run
  if [ "$zp_dry_run" = 1 ]; then zp_say "+ $(zp_quote "$@")"; else "$@"; fi
}
zp_minutes() { # between two times of "date +%s"
  zp_tenths=$((($2 - $1 + 3) / 6))
  printf '%d.%d' "$((zp_tenths / 10))" "$((zp_tenths % 10))"
}

zp_one_of() { # name, value, allowed values...
  zp_option=$1 zp_value=$2
  shift 2
  printf '%s\n' "$@" | grep -Fqx -e "$zp_value" ||
    zp_die 2 "$zp_option is '$zp_value'; use one of: $*"
}
zp_options() {
  zp_began=$(date +%s) zp_logs=$zp_root/build/setup zp_jobs=${ZP_JOBS:-$(nproc)}
  zp_may_install=${ZP_INSTALL:-auto} zp_offline=${ZP_OFFLINE:-0} zp_dry_run=${ZP_DRY_RUN:-0}
  zp_cuda=${ZP_CUDA:-AUTO} zp_mpi=${ZP_MPI:-AUTO} zp_yaml=${ZP_YAML:-AUTO}
  zp_nightly=${ZP_NIGHTLY:-0}
  zp_one_of ZP_INSTALL "$zp_may_install" auto never
  zp_one_of ZP_OFFLINE "$zp_offline" 0 1
  zp_one_of ZP_DRY_RUN "$zp_dry_run" 0 1
  zp_one_of ZP_NIGHTLY "$zp_nightly" 0 1
  zp_one_of ZP_CUDA "$zp_cuda" AUTO ON OFF
  zp_one_of ZP_MPI "$zp_mpi" AUTO ON OFF
  zp_one_of ZP_YAML "$zp_yaml" AUTO ON OFF
  case $zp_jobs in
    0* | *[!0-9]* | ????*) zp_die 2 "ZP_JOBS is '$zp_jobs'; use a number from 1 to 999" ;;
  esac
}

# Two runs in one checkout would write the same files: the second waits for the first.
zp_lock() {
  [ "$zp_dry_run" = 0 ] || return 0
  mkdir -p "$zp_logs" 2>/dev/null && [ -w "$zp_logs" ] ||
    zp_die 3 "cannot write to $zp_root/build; make it writable for $(id -un)"
  command -v flock >/dev/null || return 0
  exec 9>"$zp_logs/lock"
  flock -n 9 || { zp_say 'waiting for another run in this checkout' && flock 9; }
}
zp_release() { if [ "$zp_dry_run" = 0 ]; then exec 9>&-; fi; }

zp_compile() { # compiler ("ccache g++" is one too), arguments...; source on stdin
  zp_program=$1 && shift
  $zp_program "$@" -x c++ -
}
zp_works() { # compiler
  zp_compile "$1" -std=c++20 -E >/dev/null 2>&1 <<'SOURCE'
#include <omp.h>
#include <span>
#if __clang_major__ ? __clang_major__ < 14 : __GNUC__ < 11
#error "too old"
#endif
SOURCE
}
zp_find_compiler() { # sets zp_cxx, to nothing if there is none; a compiler of the build comes first
  for zp_cxx in "${CXX:-$(zp_cached CMAKE_CXX_COMPILER)}" c++ g++ clang++ g++-14 g++-13 g++-12; do
    if [ -n "$zp_cxx" ] && zp_works "$zp_cxx"; then return 0; fi
    [ -z "${CXX:-}" ] || zp_die 2 \
      "CXX is '$CXX', not a g++ >= 11 or clang++ >= 14 with OpenMP"
  done
  zp_cxx=''
}
zp_header() ( # whether the compiler finds a header, where CMake looks for it too
  IFS=:
  for zp_dir in $zp_root/.deps ${CMAKE_PREFIX_PATH:-} $PATH; do
    zp_dir=${zp_dir%/*bin}/include
    [ ! -d "$zp_dir" ] || CPATH=${CPATH:+$CPATH:}$zp_dir:$zp_dir/eigen3
  done
  unset IFS && export CPATH
  zp_say "#include <$1>" | zp_compile "$zp_cxx" -std=c++20 -E >/dev/null 2>&1
)
zp_missing() { # scope...: their packages that are not here
  zp_here=$(dpkg-query -W -f ' ${db:Status-Status}:${Package} ' 2>/dev/null || true)
  sed '/^#/d' "$zp_root/common/packages.txt" | while read -r zp_package zp_of zp_sign _; do
    case " $* " in *" $zp_of "*) ;; *) continue ;; esac
    case $zp_sign:$zp_here in
      compiler:*) [ -z "$zp_cxx" ] || continue ;;
      cmake:*) ! cmake --version 2>&1 | grep -Eq ' ([4-9]|3\.(2[5-9]|[3-9].))\.' || continue ;;
      *" installed:$zp_package "*) continue ;;
      -:*) ;;
      */*:* | *.h:*) [ -z "$zp_cxx" ] || ! zp_header "$zp_sign" || continue ;;
      *) ! command -v "$zp_sign" >/dev/null || continue ;;
    esac
    printf ' %s' "$zp_package"
  done
}
zp_setup() {
  zp_options
  zp_lock
  zp_find_compiler
  zp_required='' zp_wanted=''
  for zp_of in build $zp_scope mpi yaml; do
    case $zp_of:$zp_mpi:$zp_yaml:${CI:-} in
      mpi:OFF:* | yaml:*:OFF:*) continue ;;
      gate:*:true) zp_required="$zp_required gate" ;;  # CI skips no test for lack of a package
      gate:* | nightly:* | tsan:* | mpi:AUTO:* | yaml:*:AUTO:*) ;;
      *) zp_required="$zp_required $zp_of" ;;
    esac
    zp_wanted="$zp_wanted $zp_of"
  done
  zp_packages=$(zp_missing $zp_wanted)
  [ -z "$zp_packages" ] || zp_install
}
zp_install() {
  zp_apt="apt-get update; apt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends"
  zp_apt=$zp_apt$zp_packages zp_why='' zp_sudo=''
  if [ "$zp_may_install:$zp_offline" != auto:0 ]; then
    zp_why="ZP_INSTALL=$zp_may_install, ZP_OFFLINE=$zp_offline"
  elif ! command -v apt-get >/dev/null; then
    zp_why='there is no apt-get'
  elif [ "$(id -u)" != 0 ]; then
    zp_sudo='sudo -n'
    $zp_sudo true 2>/dev/null || zp_why="$(id -un) has no sudo without a password"
  fi
  if [ -z "$zp_why" ]; then
    zp_long install $zp_sudo env DEBIAN_FRONTEND=noninteractive sh -c "$zp_apt" ||
      zp_why='apt-get failed'
    hash -r
    if [ "$zp_dry_run" = 1 ]; then zp_cxx=${zp_cxx:-g++} && return 0; else zp_find_compiler; fi
  fi
  zp_packages=$(zp_missing $zp_required) zp_apt="an administrator can run: $zp_apt"
  if [ -n "$zp_packages" ]; then
    zp_die 3 "missing:$zp_packages (${zp_why:-too old in this distribution}); $zp_apt"
  fi
  if [ -n "$zp_why" ]; then zp_say "optional packages are missing ($zp_why); $zp_apt"; fi
}

zp_long() { # name, command...: its output, or without a terminal a log and a line a minute
  zp_log=$zp_logs/$1.log zp_step=$1 zp_status=0
  shift
  if [ "$zp_dry_run" = 1 ] || [ -t 1 ]; then zp_do "$@" 9>&- && return || return; fi
  zp_say "$zp_step: $(zp_show "$zp_log")"
  while sleep 60 >/dev/null 2>&1; do tail -n 1 "$zp_log" | cut -c 1-90; done 9>&- </dev/null &
  zp_watch=$!
  "$@" >"$zp_log" 2>&1 9>&- </dev/null || zp_status=$?
  kill "$zp_watch"
  [ "$zp_status" = 0 ] ||
    sed -n '/^FAILED\|^CMake Error\|^E: \|[Ee]rror:/,$p' "$zp_log" | sed -n '1,25p' >&2
  return "$zp_status"
}
zp_cached() { # one value of CMake's cache, nothing without
  sed -n "s/^$1:[A-Z]*=//p" "${zp_tree:-$zp_root/build}/CMakeCache.txt" 2>/dev/null || true
}
zp_configure() { # ZP_TESTS: ON, or keep (ON where it is ON already); more arguments of cmake
  zp_tests=$1
  shift
  if [ "$zp_tests" = keep ]; then zp_tests=$(zp_cached ZP_TESTS); fi
  zp_program=$(readlink -f "$(command -v "${zp_cxx%% *}")" || true)
  zp_before=$(zp_cached CMAKE_HOME_DIRECTORY):$(zp_cached CMAKE_GENERATOR)
  zp_before=$zp_before:$(readlink -f "$(zp_cached CMAKE_CXX_COMPILER)" || true)
  case $zp_before in :: | "$zp_root:Ninja:$zp_program") ;; *) set -- --fresh "$@" ;; esac
  # a compiler with its version in its name may be installed without cc
  zp_cc=$(zp_say "$zp_cxx" | sed 's/clang++/clang/; s/g++/gcc/')
  if command -v cc >/dev/null; then zp_cc=cc; fi
  zp_long "configure-${zp_preset:-cpu}" env CXX="$zp_cxx" CC="${CC:-$zp_cc}" cmake \
    --preset "${zp_preset:-cpu}" -S "$zp_root" -DZP_TESTS="${zp_tests:-OFF}" -DZP_CUDA="$zp_cuda" \
    -DZP_MPI="$zp_mpi" -DZP_YAML="$zp_yaml" "$@" || zp_die 2 'cmake refused the configuration'
}
zp_build() { # exit status of a failed build, arguments of cmake --build...
  zp_failed=$1 && shift
  zp_long "build-${zp_preset:-cpu}" cmake --build "${zp_tree:-$zp_root/build}" \
    --parallel "$zp_jobs" "$@" || zp_die "$zp_failed" 'the build failed'
  zp_built=$(date +%s)
}
