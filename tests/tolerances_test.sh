#!/bin/sh
# tests/tolerances.awk: hand-set tolerances of every kind are found, and what only looks like one is not.
# Usage: tolerances_test.sh
set -eu
case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
here=$(CDPATH='' cd -- "$here" && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work"
failed=no

# name, expected number of findings; the file's lines on standard input
expect() {
  cat >"$1"
  LC_ALL=C awk -f "$here/tolerances.awk" list.txt "$1" >log
  count=$(wc -l <log)
  [ "$count" -eq "$2" ] && return 0
  echo "$1: $count findings instead of $2:"
  cat log
  failed=yes
}

printf '# no rows\n' >list.txt
expect found.cpp 9 <<'END'
CHECK(std::fabs(a - b) < 1e-5);
CHECK(std::fabs(a - b) <= 1e-06F * b);
CHECK(error <= 3 * 0x1p-20);
if (1e-4 * b > error) return;
CHECK(a == doctest::Approx(b));
EXPECT_NEAR(a, b, tolerance);
EXPECT_FLOAT_EQ(a, b);
CHECK(error < std::numeric_limits<float>::epsilon());
CHECK(error < 4 * FLT_EPSILON);
END
expect found.py 4 <<'END'
assert np.allclose(a, b)
torch.testing.assert_close(a, b)
assert math.isclose(a, b)
assert abs(a - b) < 1e-9 * b
END
expect other.cpp 0 <<'END'
std::array<float, 2> x = {1e-5F, 1e-6F};  // an error < 1e-5 is none
const double eps = 1e-8;
CHECK(ratio <= 1);
CHECK(x.size() > 3);
for (int i = 0; i < 10; ++i) add(1e-4);
CHECK(ratio >= 0.5);
std::vector<double> y(n, 1e-30);
END
expect other.py 0 <<'END'
lr = 1e-3  # what < 1e-5 means
assert n > 3
END
printf 'found.c | < 1e-5 | a reason\n' >list.txt
expect found.c 0 <<'END'
return error < 1e-5;
END
expect gone.c 1 <<'END'
return error == 0;
END
printf 'found.c | < 1e-5 |\n' >list.txt
expect found.c 2 <<'END'
return error < 1e-5;
END
[ "$failed" = no ] || exit 1
echo 'ok: hand-set tolerances are found, and nothing else is'
