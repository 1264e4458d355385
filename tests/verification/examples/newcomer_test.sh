#!/bin/sh
# newcomer_test.sh SOURCE    that newcomer.sh takes the steps its page shows, with programs that only write them down
set -eu
source=$1
script=$source/verification/examples/newcomer.sh page=$source/verification/examples/README.md
fail() { printf 'FAILED: %s\n' "$1"; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

for words in '' 'rust' 'cpp --packages'; do
  code=0
  # shellcheck disable=SC2086  # words
  sh "$script" $words >"$folder/said" 2>&1 || code=$?
  [ "$code" = 2 ] || fail "newcomer.sh $words ends with $code, not 2"
  [ "$(wc -l <"$folder/said")" = 1 ] || fail "newcomer.sh $words does not print one sentence: $(cat "$folder/said")"
done
printf 'ok: bad words\n'

# Programs that record their arguments; the clone is a folder that already holds the build.
mkdir "$folder/bin"
for program in apt-get git cmake c++ python3; do
  # shellcheck disable=SC2016  # for the replacement program
  printf '#!/bin/sh\n[ "%s" != git ] || { mkdir -p "$4/build" "$4/venv/bin"; for p in build/zeroproof venv/bin/pip venv/bin/python; do
cp "%s/bin/c++" "$4/$p"; done; }\necho "${0#*/zeroproof/} $*" >>"%s/calls"\n[ "${0##*/}" != "${FAILS:-none}" ] || { echo cannot; exit 7; }\necho "1 pass, 0 fail  (1 s)"\n' \
    "$program" "$folder" "$folder" >"$folder/bin/$program"
  chmod +x "$folder/bin/$program"
done
PATH=$folder/bin:$PATH
export PATH TMPDIR="$folder"
for path in cpp python; do
  sh "$script" $path >"$folder/said" 2>&1 || fail "newcomer.sh $path: $(cat "$folder/said")"
  grep -q ' 1 pass, 0 fail' "$folder/said" || fail "newcomer.sh $path shows no verdict: $(cat "$folder/said")"
  grep -q ' s  in all$' "$folder/said" || fail "newcomer.sh $path shows no sum: $(cat "$folder/said")"
done
sed "s|^$folder/bin/||" "$folder/calls" | grep -v '^git ' | sort -u >"$folder/done"
# shellcheck disable=SC2016  # backquotes of Markdown
sed -n '/^## From a clean clone/,$p' "$page" | sed -n '/^```sh/,/^```/p' | grep -v '^```' | sort -u >"$folder/shown"
cmp -s "$folder/done" "$folder/shown" || fail "the page shows other steps: $(diff "$folder/done" "$folder/shown")"
printf 'ok: the steps of the page\n'

: >"$folder/calls"
sh "$script" cpp --no-packages >"$folder/said" 2>&1 || fail "--no-packages: $(cat "$folder/said")"
! grep -q apt-get "$folder/calls" || fail '--no-packages installs packages'
code=0
FAILS='c++' sh "$script" cpp --no-packages >"$folder/said" 2>&1 || code=$?
[ "$code" = 7 ] || fail "a step that fails with 7 makes it end with $code"
grep -q "^newcomer.sh: 'compile the plug-in' failed (.*); " "$folder/said" || fail "unclear: $(cat "$folder/said")"
[ -z "$(find "$folder" -mindepth 1 -maxdepth 1 -name 'tmp.*')" ] || fail 'its folder is left behind'
printf 'ok: a step that fails\n'
