#!/bin/sh
# instructions_test.sh COMPILER OBJECT...      disassembles objects or archives of contract code and fails if one holds
# an instruction that violates the rounding of R2, R4 and R8: fused multiply-add, approximations of 1/x and 1/sqrt(x),
# conversions to bf16 that flush subnormals, x87 arithmetic, or a call of fma(). Names archive, object and function.
# First it compiles a bad object for every kind, which must be detected.
# Exit status: 0 none, 1 some, 77 cannot run here (no objdump, or not x86-64).
set -eu
fail() { printf 'FAILED: %s\n' "$1"; exit 1; }
skip() { printf 'skipped: %s\n' "$1"; exit 77; }

[ $# -ge 2 ] || fail 'usage: instructions_test.sh COMPILER OBJECT...'
compiler=$1
shift
objdump=${OBJDUMP:-objdump}
command -v "$objdump" >/dev/null 2>&1 || skip "there is no $objdump here (binutils has it), so no object was checked"
case $(uname -m) in x86_64 | amd64) ;; *) skip "the list of instructions is that of x86-64, and this is $(uname -m)" ;; esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# R7: the norm may use fma on its fp64 sums. These are the functions (patterns of mangled names) in which it is
# allowed; no compiler generates one under the contract's flags, so currently the list is not needed.
allowed='grad_norm|chunk_sum|all_chunks|square_lanes'
# R27: the chains of a matrix product are of fma in fp32; `product` of the reference calls it.
products='matrix_product|9reference12_GLOBAL__N_17product'
demangle='cat'
if command -v c++filt >/dev/null 2>&1; then demangle=c++filt; fi

# The disassembly on standard input; prints "OBJECT FUNCTION: INSTRUCTION" for every bad one, and counts at the end.
cat >"$folder/scan.awk" <<'AWK'
/file format/ { object = $1; sub(/:$/, "", object); next }
/^[0-9a-f]+ <.*>:$/ { name = $2; gsub(/[<>:]/, "", name); ++functions; next }
# "address: TAB instruction operands"; relocations are on separate lines as "address: R_X86_64_... symbol"
/R_X86_64_/ {
  symbol = $3
  sub(/[-+]0x[0-9a-f]+$/, "", symbol)
  if (symbol ~ /^fmaf(@.*)?$/ && name ~ products) next
  if (symbol ~ /^(fmaf?|fmal|__fmaf?)(@.*)?$/ && name !~ allowed) bad("calls " symbol)
  next
}
{
  n = split($0, part, "\t")
  if (n < 2) next
  split(part[2], word, " ")
  op = word[1]
  ++instructions
  if (op ~ /^v?(add|sub|mul|div|sqrt)[ps][sd]$/) {
    ++arithmetic
    if (part[2] ~ /%ymm/) ++wide
    if (part[2] ~ /%zmm/) ++widest
  }
  if (op ~ /^vfn?m(add|sub)/ || op ~ /^vfc?m(add|ul)c/) {
    if (name ~ products && op ~ /^vfmadd.*[ps]s$/) ++chained
    else if (name !~ allowed || op !~ /d$/) bad(op)
  } else if (op ~ /^v?r(cp|sqrt)(14|28)?[ps][sdh]/ || op ~ /^vexp2/ || op ~ /^vreduce[ps]/) {
    bad(op)
  } else if (op ~ /^vdpbf16/ && name ~ products) {
    ++chained
  } else if (op ~ /^vcvtne2?ps2bf16/ || op ~ /^vdpbf16/) {
    bad(op)
  } else if (op ~ /^f(add|sub|subr|mul|div|divr|sqrt|iadd|isub|imul|idiv)[psl]*$/) {
    bad(op)
  }
}
function bad(what) {
  key = object " " name ": " what
  if (!(key in seen)) {
    seen[key] = 1
    print "BAD " key
  }
  ++total
}
END { print "COUNT", functions + 0, instructions + 0, arithmetic + 0, wide + 0, widest + 0, total + 0, chained + 0 }
AWK

scan() { # file: writes the lines to $folder/found
  "$objdump" -d -r --no-show-raw-insn "$1" >"$folder/text" 2>"$folder/errors" || fail "objdump cannot read $1: $(cat "$folder/errors")"
  awk -v allowed="$allowed" -v products="$products" -f "$folder/scan.awk" "$folder/text" >"$folder/found"
}
count() { sed -n 's/^COUNT //p' "$folder/found" | cut -d ' ' -f "$1"; }

# ---------------------------------------------------------------- self-test

planted() { # expected finding, compiler flags...; the function is on standard input
  wanted=$1
  shift
  cat >"$folder/planted.cpp"
  # shellcheck disable=SC2086  # a compiler with arguments must be split
  if ! $compiler "$@" -c -o "$folder/planted.o" "$folder/planted.cpp" 2>"$folder/errors"; then
    fail "the planted object does not compile: $(cat "$folder/errors")"
  fi
  scan "$folder/planted.o"
  grep -q "^BAD .*planted_here.*: .*$wanted" "$folder/found" || fail "a planted $wanted was not found"
}
planted 'vfn\{0,1\}m' -O2 -march=x86-64-v3 -ffp-contract=fast <<'CXX'
float planted_here(float a, float b, float c) { return a * b + c; }
CXX
planted 'vfn\{0,1\}m' -O3 -march=x86-64-v3 -ffp-contract=fast <<'CXX'
void planted_here(const float* a, const float* b, float* c) { for (int i = 0; i < 64; ++i) c[i] -= a[i] * b[i]; }
CXX
planted 'vfmsub' -O2 -march=x86-64-v3 -ffp-contract=fast <<'CXX'
float planted_here_matrix_product_tile(float a, float b, float c) { return a * b - c; }
CXX
planted 'rsqrt' -O2 <<'CXX'
#include <immintrin.h>
__m128 planted_here(__m128 x) { return _mm_rsqrt_ps(x); }
CXX
planted 'rcp' -O2 -mavx512f <<'CXX'
#include <immintrin.h>
__m512 planted_here(__m512 x) { return _mm512_rcp14_ps(x); }
CXX
planted 'calls fma' -O2 -fno-builtin <<'CXX'
#include <cmath>
float planted_here(float a, float b, float c) { return ::fmaf(a, b, c) + 1; }
CXX
planted 'fmul' -O2 <<'CXX'
long double planted_here(long double a, long double b) { return a * b; }
CXX
printf 'ok: 7 planted instructions were found\n'

# ---------------------------------------------------------------- the objects

failed=0 wide=0 widest=0 arithmetic=0 chained=0
for file in "$@"; do
  [ -f "$file" ] || fail "$file does not exist"
  scan "$file"
  [ "$(count 2)" -gt 0 ] || fail "$file holds no instructions"
  arithmetic=$((arithmetic + $(count 3))) wide=$((wide + $(count 4))) widest=$((widest + $(count 5))) chained=$((chained + $(count 7)))
  if [ "$(count 6)" -gt 0 ]; then
    failed=1
    sed -n "s|^BAD |FAILED: ${file##*/} |p" "$folder/found" | $demangle
  else
    printf 'ok: %s: %s functions, %s instructions, %s of them float arithmetic\n' "${file##*/}" "$(count 1)" "$(count 2)" "$(count 3)"
  fi
done
# Contract code without arithmetic, or without the wider variants, means that the wrong files were checked.
[ "$arithmetic" -gt 0 ] || fail 'no float arithmetic was found'
[ "$((wide * widest))" -gt 0 ] || fail 'no vector arithmetic of 256 and 512 bits was found: the variants are missing'
[ "$chained" -gt 0 ] || fail 'no fma of a matrix product was found'
exit $failed
