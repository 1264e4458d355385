#!/bin/sh
# setup_test.sh SOURCE_DIR      a package of the gate that cannot be installed ends tests/run with 3 if CI=true; otherwise
# tests/run goes on without it. Both are dry runs in which python3-numpy is not installed.
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'FAIL  %s\n' "$1"; cat "$work/log"; exit 1; }

cat >"$work/dpkg-query" <<'SH'
#!/bin/sh
sed '/^#/d; /^python3-numpy /d' "$ZP_PACKAGES" | while read -r name _; do printf ' installed:%s ' "$name"; done
SH
chmod +x "$work/dpkg-query"
dry_run() { # value of CI
  status=0
  env PATH="$work:$PATH" ZP_PACKAGES="$source/common/packages.txt" CI="$1" ZP_INSTALL=never ZP_DRY_RUN=1 \
    ZP_MPI=OFF ZP_YAML=OFF "$source/tests/run" >"$work/log" 2>&1 || status=$?
}
dry_run ''
[ "$status" = 0 ] || fail "without CI tests/run ended with $status instead of 0"
grep -q 'optional packages are missing' "$work/log" || fail "tests/run does not report that packages are missing"
dry_run true
[ "$status" = 3 ] || fail "with CI=true tests/run ended with $status instead of 3"
grep -q 'missing: python3-numpy (' "$work/log" || fail "the error does not name the missing package alone"
printf 'ok: with CI=true a missing package of the gate is an error\n'
