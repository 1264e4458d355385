# shellcheck shell=sh disable=SC2154  # setup.sh sets zp_dry_run
# Long steps of the set-up: what a command says goes to a log, and people see how far it is. Sourced by common/setup.sh.
#
# On a terminal one line is rewritten every second; anywhere else (a pipe, a log of a CI job) one line grows by a word
# at least every ten seconds, and is broken before it has 100 columns.

# Steps done and steps in all, by ninja's last line in a log; nothing where there is none. Its own look at the
# build files ("Re-checking", "Re-running") is no step of the work, and a dry run of ninja counts only that.
zp_steps() { # log
  tail -c 4096 "$1" 2>/dev/null | sed -n '/\] Re-/d; s/^\[\([0-9]*\)\/\([0-9]*\)\].*/\1 \2/p' | tail -n 1
}

# How far a step is, by its log: per cent where the log is ninja's, seconds elsewhere.
zp_how_far() { # log, when it began
  zp_share=$(zp_steps "$1")
  if [ -n "$zp_share" ]; then
    printf '%s %%' "$((100 * ${zp_share% *} / ${zp_share#* }))"
  else
    printf '%s s' "$(($(date +%s) - $2))"
  fi
}

zp_watch_terminal() { # what is done, log, when it began
  while :; do
    sleep 1 >/dev/null 2>&1 || return 0
    zp_word=$(zp_how_far "$2" "$3")
    zp_share=$(zp_steps "$2")
    [ -z "$zp_share" ] || zp_word="$zp_word of ${zp_share#* } steps"
    printf '\r\033[K%s  %s' "$1" "$zp_word"
  done
}

zp_watch_log() { # what is done, log, when it began
  zp_column=${#1} zp_total=''
  while :; do
    sleep 9 >/dev/null 2>&1 || return 0
    zp_word=" $(zp_how_far "$2" "$3")"
    if [ -z "$zp_total" ]; then
      zp_share=$(zp_steps "$2")
      zp_total=${zp_share#* }
      [ -z "$zp_total" ] || zp_word="$zp_word of $zp_total steps"
    fi
    zp_column=$((zp_column + ${#zp_word} + 1))
    if [ "$zp_column" -gt 98 ]; then
      zp_column=$((${#zp_word} + 4))
      printf '\n   '
    fi
    printf '%s,' "$zp_word"
  done
}

# Runs a command whose output only matters if it fails; its status is this function's. A watcher's sleep outlives it: it
# must not keep the lock (9), or the next run would wait for it.
zp_long() { # what is done, log, command...
  zp_doing=$1 zp_log=$2
  shift 2
  if [ "$zp_dry_run" = 1 ]; then
    zp_do "$@"
    return 0
  fi
  zp_begin=$(date +%s)
  : >"$zp_log"
  if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ] && [ -z "${CI:-}" ]; then
    zp_watch_terminal "$zp_doing" "$zp_log" "$zp_begin" 9>&- &
    zp_watch=$! zp_erase=$(printf '\r\033[K')
    zp_again=$zp_doing
  else
    printf '%s' "$zp_doing"
    zp_watch_log "$zp_doing" "$zp_log" "$zp_begin" 9>&- &
    zp_watch=$! zp_erase='' zp_again=''
  fi
  zp_long_status=0
  "$@" >"$zp_log" 2>&1 </dev/null || zp_long_status=$?
  kill "$zp_watch" 2>/dev/null
  wait "$zp_watch" 2>/dev/null || true
  zp_outcome='done'
  [ "$zp_long_status" = 0 ] || zp_outcome='FAILED'
  zp_share=$(zp_steps "$zp_log")
  [ -z "$zp_share" ] || zp_outcome="$zp_outcome, ${zp_share% *} of ${zp_share#* } steps"
  printf '%s%s %s in %s s\n' "$zp_erase" "$zp_again" "$zp_outcome" "$(($(date +%s) - zp_begin))"
  return "$zp_long_status"
}

# What a person needs of a failed step's log: from its first complaint on, and where all of it is.
zp_long_failed() { # log
  sed -n '/^FAILED\|^CMake Error\|[Ee]rror:/,$p' "$1" | sed -n '1,25p' >&2
  printf 'the whole log: %s\n' "$(zp_show "$1")" >&2
}
