// R4 inside the update: the root in Adam's denominator is correctly rounded, for every float there is (slow) and in
// every path: rules, with and without amsgrad, vector bodies and tails of every instruction set.
//
// The root s of x is made visible by scalars without other effects: beta1 = beta2 = 1 and a
// gradient of 0 keep both moments, the bias correction and step_size are 1, and eps = 2^-126 is too
// small to change a root (the smallest is 2^-74.5) yet replaces s = 0. With exp_avg set to the true
// root and master to 0, master becomes -(root / s), which is -1 exactly if s is the root: one unit
// in the last place more or less already gives another quotient, because the spacing of floats
// below 1 is 2^-24 and above it 2^-23.

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/parallel_for.hpp"
#include "oracle_implementations.hpp"

namespace sqrt_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

constexpr std::int64_t block = 1 << 13;
constexpr float eps = 0x1p-126F;

StepScalars bare_scalars() {
  StepScalars s{};
  s.inv_scale = s.beta1 = s.beta2 = s.sqrt_bias_correction2 = s.step_size = 1;
  s.eps = eps;
  return s;
}

struct Path {
  const char* name;
  AdamwUpdateFn* Implementation::*update;
  bool amsgrad;
};

constexpr Path paths[] = {{"adamw", &Implementation::adamw_update, false},
                          {"adam", &Implementation::adam_update, false},
                          {"adamw amsgrad", &Implementation::adamw_update, true},
                          {"adam amsgrad", &Implementation::adam_update, true}};

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
bool same(float a, float b) { return bits_of(a) == bits_of(b) || (a != a && b != b); }

struct Buffers {
  std::vector<float> x, root, expected;                       // inputs, and the required results
  std::vector<float> grad, master, exp_avg, exp_avg_sq, top;  // operands of the implementation
};

float root_to_divide(float x) {
  if (x == 0) return eps;  // s + eps
  if (x > 0 && x <= std::numeric_limits<float>::max()) {
    const double root = std::sqrt(static_cast<double>(x));  // oracle.c: the cast rounds it once
    return static_cast<float>(root);
  }
  return 1;
}

/// master after the update.
float expected_master(float x) {
  if (x == std::numeric_limits<float>::infinity()) return 0;  // 0 - 1 / infinity
  return x >= 0 ? -1 : std::numeric_limits<float>::quiet_NaN();
}

/// Calls of `piece` elements; returns the number of wrong masters and moments.
std::int64_t run(const Implementation& implementation, const Path& path, Buffers& b,
                 std::int64_t piece, std::uint32_t& first_bad) {
  const auto numel = static_cast<std::int64_t>(b.x.size());
  std::ranges::fill(b.grad, 0.0F);
  std::ranges::fill(b.master, 0.0F);
  std::ranges::copy(b.root, b.exp_avg.begin());
  std::ranges::copy(b.x, b.top.begin());
  if (path.amsgrad) {
    std::ranges::fill(b.exp_avg_sq, 0.0F);
  } else {
    std::ranges::copy(b.x, b.exp_avg_sq.begin());
  }
  const StepScalars scalars = bare_scalars();
  for (std::int64_t i = 0; i < numel; i += piece) {
    const auto from = static_cast<std::size_t>(i),
               count = static_cast<std::size_t>(std::min(piece, numel - i));
    const auto part = [&](std::vector<float>& whole) {
      return Span<float>(whole).subspan(from, count);
    };
    (implementation.*path.update)(implementation.exec, AdamOptions{path.amsgrad, false}, scalars,
                                  part(b.grad), part(b.master), part(b.exp_avg), part(b.exp_avg_sq),
                                  path.amsgrad ? part(b.top) : Span<float>{});
  }
  std::int64_t differ = 0;
  for (std::size_t i = 0; i < b.x.size(); ++i) {
    const bool moments =
        same(b.exp_avg[i], b.root[i]) && (path.amsgrad ? b.exp_avg_sq[i] == 0 : true);
    if (moments && same(b.master[i], b.expected[i])) continue;
    if (differ++ == 0) first_bad = bits_of(b.x[i]);
  }
  return differ;
}

/// bits(i) for i in [0, count). With amsgrad only x >= 0 is run: the moment 0 would replace a
/// negative maximum.
template <class Bits>
void check_roots(const char* what, const std::vector<Path>& chosen, std::int64_t count, Bits&& bits,
                 std::int64_t tails_every) {
  std::vector<Implementation> implementations = implementations_with(&Implementation::adam_update);
  for (const Path& path : chosen) {
    std::mutex mutex;
    std::int64_t differ = 0;
    std::string first;
    parallel_for(available_cores(), (count + block - 1) / block, [&](std::int64_t k) {
      thread_local Buffers b;
      const auto numel = static_cast<std::size_t>(std::min(block, count - k * block));
      for (auto* v :
           {&b.x, &b.root, &b.expected, &b.grad, &b.master, &b.exp_avg, &b.exp_avg_sq, &b.top})
        v->resize(numel);
      for (std::size_t i = 0; i < numel; ++i) {
        b.x[i] = std::bit_cast<float>(bits(k * block + static_cast<std::int64_t>(i)));
        if (path.amsgrad && !(b.x[i] > 0)) b.x[i] = 0;
        b.root[i] = root_to_divide(b.x[i]);
        b.expected[i] = expected_master(b.x[i]);
      }
      for (const Implementation& implementation : implementations) {
        for (std::int64_t piece : {block, std::int64_t{3}}) {
          if (piece != block && (k % tails_every != 0 || implementation.name == "device")) continue;
          std::uint32_t bad = 0;
          const std::int64_t here = run(implementation, path, b, piece, bad);
          if (here == 0) continue;
          const std::lock_guard lock(mutex);
          if (differ == 0)
            first = implementation.name + ", x =" + std::to_string(bad) + " (bits), calls of " +
                    std::to_string(piece);
          differ += here;
        }
      }
    });
    std::printf("sqrt in %s, %s: %lld values x %zu implementations, %lld differ\n", path.name, what,
                static_cast<long long>(count), implementations.size(),
                static_cast<long long>(differ));
    std::fflush(stdout);
    CHECK_MESSAGE(differ == 0, first);
  }
}

}  // namespace

TEST_CASE("roots: two ulps around every power of two, squares and their neighbours") {
  std::vector<std::uint32_t> bits;
  for (std::uint32_t exponent = 0; exponent <= 0x1FF; ++exponent) {
    for (std::uint32_t i = 0; i < 5; ++i) bits.push_back((exponent << 23) + i - 2);
  }
  for (std::uint32_t n = 1; n < 4096; ++n) {  // squares of 12-bit numbers, whose roots are exact
    for (std::uint32_t i = 0; i < 3; ++i)
      bits.push_back(bits_of(static_cast<float>(n * n)) + i - 1);
  }
  check_roots(
      "edges", {std::begin(paths), std::end(paths)}, static_cast<std::int64_t>(bits.size()),
      [&](std::int64_t i) { return bits[i]; }, 1);
}

TEST_CASE("roots: every 64th float") {
  check_roots(
      "every 64th float", {paths[0], paths[3]},
      std::int64_t{1} << 25,  // the negative ones are all NaN
      [](std::int64_t i) { return static_cast<std::uint32_t>(64 * i + i * 37 % 64); }, 16);
}

TEST_CASE("slow: roots: every float") {
  check_roots(
      "every float", {paths[0]}, std::int64_t{1} << 32,
      [](std::int64_t i) { return static_cast<std::uint32_t>(i); }, 1);
}

TEST_CASE("slow: roots: every positive float in the other paths") {
  check_roots(
      "every positive float", {paths[1], paths[2], paths[3]}, std::int64_t{1} << 31,
      [](std::int64_t i) { return static_cast<std::uint32_t>(i); }, 16);
}

}  // namespace sqrt_test
