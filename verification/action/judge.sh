#!/bin/sh
# judge.sh: everything the action runs. Its inputs are INPUT_PLUGIN, INPUT_CALLABLE, ... (action.yml); it runs outside of
# GitHub too. Exit codes: 0, all is right; 1, something is wrong; others as of zeroproof, 2 for unusable inputs.
set -euf
here=$(cd "$(dirname "$0")" && pwd)
plugin=${INPUT_PLUGIN:-} callable=${INPUT_CALLABLE:-} pytest=${INPUT_PYTEST:-} cases=${INPUT_CASES:-op/*}
golden=${INPUT_GOLDEN:-} accept=${INPUT_ACCEPT:-} source=${INPUT_SOURCE:-} build=${INPUT_BUILD:-}
wheel=${INPUT_WHEEL:-} version=${INPUT_VERSION:-} reports=${INPUT_REPORTS:-zeroproof-reports}
github=${GITHUB_ACTIONS:+,github}  # annotations and a job summary are GitHub's alone
ZEROPROOF_INCLUDE=$here/../interfaces/capi
export ZEROPROOF_INCLUDE

annotate() {  # a sentence
  if [ -n "$github" ]; then
    printf '::error title=zeroproof::%s\n' "$(printf '%s' "$1" | sed 's/%/%25/g' | tr '\r\n' '  ')"
  else
    printf 'zeroproof: %s\n' "$1" >&2
  fi
}

refuse() {
  annotate "$1"
  exit 2
}

temporary=${RUNNER_TEMP:-${TMPDIR:-/tmp}}
work=$(mktemp -d "$temporary/zeroproof.XXXXXX" 2>/dev/null) ||
  refuse "no folder can be made in '$temporary' (it is for temporary files); set TMPDIR to a writable folder"
trap 'rm -rf "$work"' EXIT

choice() {  # INPUT VALUE: true or false
  case $2 in
    true | false) ;;
    *) refuse "$1 is '$2' (it is a choice); use true or false" ;;
  esac
}

# Refused before minutes of installing.
strict=${INPUT_STRICT:-false} strict_bits=${INPUT_STRICT_BITS:-false}
choice strict "$strict"
choice strict-bits "$strict_bits"
[ -n "$plugin$callable$pytest" ] ||
  refuse "there is nothing to judge (plugin, callable and pytest are empty); give one of them"
[ -z "$golden" ] || [ -n "$plugin" ] ||
  refuse "golden was given without plugin (its numbers are compared with those of a library); add plugin"
[ -z "$source" ] || [ -f "$source" ] ||
  refuse "source '$source' is no file (failures are annotated there); name your kernel's source"
[ -z "$wheel" ] || [ -z "$version" ] || refuse "both wheel and version were given (one is installed); leave one out"
golden_files=
for one in $golden; do
  found=$one
  if [ -d "$one" ]; then
    found=$(find "$one" -name '*.safetensors' | sort)
    [ -n "$found" ] || refuse "the golden folder '$one' has no *.safetensors (nothing would be checked); record some"
  elif [ ! -f "$one" ]; then
    refuse "golden '$one' is neither a file nor a folder (nothing would be checked); commit it, or leave golden out"
  fi
  golden_files="$golden_files $found"
done

install() {  # a requirement
  printf '::group::Install %s\n' "$1"
  python=python3
  command -v python3 >/dev/null || refuse "there is no python3 (it installs zeroproof); install it in an earlier step"
  # Systems that keep their packages to themselves get an environment beside them.
  if python3 -c 'import os, sys, sysconfig
sys.exit(sys.prefix != sys.base_prefix or not os.path.exists(sysconfig.get_path("stdlib") + "/EXTERNALLY-MANAGED"))'; then
    environment=${RUNNER_TEMP:-$HOME}/zeroproof-environment
    python3 -m venv --system-site-packages "$environment" ||
      refuse "python3 makes no environment in '$environment' (Debian: python3-venv); install that, or set RUNNER_TEMP"
    python=$environment/bin/python
  fi
  "$python" -m pip --disable-pip-version-check install "$1" ||
    refuse "zeroproof cannot be installed from '$1' (the log has pip's reason); see the inputs wheel and version"
  PATH=$("$python" -c 'import sysconfig; print(sysconfig.get_path("scripts"))'):$PATH
  [ -z "${GITHUB_PATH:-}" ] || printf '%s\n' "${PATH%%:*}" >>"$GITHUB_PATH"
  printf '::endgroup::\n'
}

worst=0
run() {  # a command; its standard error is kept for the annotation of a run without a verdict
  printf '+ %s\n' "$*"
  echo 0 >"$work/code"
  { { "$@" || echo $? >"$work/code"; } 2>&1 1>&3 | tee "$work/errors" >&2; } 3>&1
  read -r code <"$work/code"
  case $code in
    0) return ;;
    1 | 8) worst=1 ;;
    *)
      [ "$worst" -ne 0 ] || worst=$code
      annotate "$(tail -n 1 "$work/errors") [exit code $code of $*]"
      ;;
  esac
}

number=0
verify() {  # COMMAND... : with the flags of a run and of its reports
  number=$((number + 1))
  [ -z "$accept" ] || set -- "$@" --accept "$accept"
  [ "$strict" = false ] || set -- "$@" --strict
  run "$@" --report "text$annotations,html:$reports/$number.html,junit:$reports/$number.xml" \
    --save-failing "$reports/failing-$number"
}

case $wheel$version in
  installed) ;;
  '') install "$(cd "$here/../.." && pwd)" ;;
  "$version") install "zproof==$version" ;;
  *) install "$wheel" ;;
esac
if [ -n "$build" ]; then
  printf '::group::Build\n'
  sh -e -c "$build" || refuse "the build command ended with an error (the log has it); correct it"
  printf '::endgroup::\n'
fi
mkdir -p "$reports" 2>/dev/null || refuse "the folder '$reports' of the reports cannot be made (they would be lost); use another"

lines() {  # the lines of a text that are not empty
  printf '%s\n' "$1" | grep -v '^ *$'
}

if [ -n "$plugin" ]; then
  [ -f "$plugin" ] || refuse "plugin '$plugin' is no file (it is your kernel's library); build it in an earlier step, or with build"
  command -v zeroproof >/dev/null || refuse "there is no program zeroproof (a library needs it); use a later wheel of zproof"
  annotations=${github:+$github${source:+:$source}}
  lines "$cases" >"$work/cases"
  while read -r line <&4; do
    # shellcheck disable=SC2086  # words of the input
    verify zeroproof verify $line --plugin "$plugin"
  done 4<"$work/cases"
  if [ -n "$golden_files" ]; then
    [ "$strict_bits" = false ] || golden_files="$golden_files --strict-bits"
    # shellcheck disable=SC2086  # words
    run zeroproof golden check $golden_files --plugin "$plugin" --report "text$annotations"
  fi
fi
annotations=$github  # at the callable's own source
python=${python:-python3}
needs() {  # MODULE INPUT
  "$python" -c "import $1" 2>"$work/errors" ||
    refuse "$python cannot import $1 (the input $2 needs it): $(tail -n 1 "$work/errors"); install it in an earlier step"
}
[ -z "$callable" ] || needs zproof callable
[ -z "$pytest" ] || needs pytest pytest
lines "$callable" >"$work/callables" || true
while read -r line <&4; do
  # shellcheck disable=SC2086  # words of the input
  verify "$python" -m zproof verify $line
done 4<"$work/callables"
# shellcheck disable=SC2086  # words of the input
[ -z "$pytest" ] || run "$python" -m pytest $pytest "--junitxml=$reports/pytest.xml"
exit "$worst"
