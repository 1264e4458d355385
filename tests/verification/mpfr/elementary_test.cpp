// R23 against GNU MPFR, which rounds every function once to 24 bits: the reference and every other
// implementation, at every fp32 value (slow), or at some of every exponent and around the values
// where sequences change. Only the slow case includes the few inputs for which sigmoid and log are
// not the nearest value.
//
// All five functions are increasing. If both ends of a range have the same value, everything in
// between has it too, and MPFR is not called: only values at which a function changes remain.

#include <doctest.h>
#include <mpfr.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <vector>

#include "common/base/parallel_for.hpp"
#include "verification/ops/op.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

/// An MPFR number with the bits and exponents of fp32.
class Nearest {
 public:
  Nearest() {
    mpfr_set_emin(-148);  // the significand is below 1: 2^-149 has exponent -148
    mpfr_set_emax(128);
    mpfr_init2(x_, 24), mpfr_init2(y_, 24), mpfr_init2(wide_, 200);
  }
  ~Nearest() { mpfr_clear(x_), mpfr_clear(y_), mpfr_clear(wide_); }
  Nearest(const Nearest&) = delete;
  Nearest& operator=(const Nearest&) = delete;

  float of(const std::string& name, float x) {
    mpfr_set_flt(x_, x, MPFR_RNDN);
    int direction = 0;
    if (name == "elementary_exp") direction = mpfr_exp(y_, x_, MPFR_RNDN);
    if (name == "elementary_tanh") direction = mpfr_tanh(y_, x_, MPFR_RNDN);
    if (name == "elementary_erf") direction = mpfr_erf(y_, x_, MPFR_RNDN);
    if (name == "elementary_log") direction = mpfr_log(y_, x_, MPFR_RNDN);
    if (name == "elementary_sigmoid") direction = sigmoid();
    mpfr_subnormalize(y_, direction, MPFR_RNDN);
    return mpfr_get_flt(y_, MPFR_RNDN);
  }

 private:
  /// First in 200 bits; two roundings equal one unless the wide value is a midpoint, which 1 / (1 +
  /// exp(-x)) is only at 0 and where it is nearly 1 (and below it).
  int sigmoid() {
    mpfr_set_emin(mpfr_get_emin_min());
    mpfr_set_emax(mpfr_get_emax_max());
    mpfr_neg(wide_, x_, MPFR_RNDN);
    mpfr_exp(wide_, wide_, MPFR_RNDN);
    mpfr_add_ui(wide_, wide_, 1, MPFR_RNDN);
    mpfr_ui_div(wide_, 1, wide_, MPFR_RNDN);
    mpfr_set_emin(-148);
    mpfr_set_emax(128);
    const int direction = mpfr_set(y_, wide_, MPFR_RNDN);
    return mpfr_check_range(y_, direction, MPFR_RNDN);
  }

  mpfr_t x_, y_, wide_;
};

const std::vector<const char*> functions = {
    "elementary_exp", "elementary_tanh", "elementary_sigmoid", "elementary_erf", "elementary_log"};

std::uint32_t bits_of(float x) { return x != x ? 0x7FC00000U : std::bit_cast<std::uint32_t>(x); }
float value_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// The results of every implementation for bit patterns [first, first + count).
std::vector<std::vector<float>> computed(const Op& op, std::uint64_t first, std::int64_t count) {
  const OpCall pristine(op, {Fill::zero, count, 0, 0, 1, 1, 0});
  const Span<float> x = pristine.get<float>(0);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = value_of(static_cast<std::uint32_t>(first + i));
  std::vector<std::vector<float>> all;
  for (const OpFunction& implementation : {op.reference, op.host}) {
    if (!implementation) continue;
    OpCall call = pristine.fresh();
    implementation(call);
    const Span<float> y = call.get<float>(1);
    all.emplace_back(y.begin(), y.end());
  }
  return all;
}

struct Found {
  std::atomic<std::int64_t> values = 0, asked = 0, different = 0;
  std::atomic<std::uint32_t> first = 0;
};

/// Patterns [first, first + count) of one sign.
void check_stretch(const Op& op, std::uint64_t first, std::int64_t count, Found& found) {
  thread_local Nearest nearest;
  const std::vector<std::vector<float>> all = computed(op, first, count);
  const auto look = [&](std::int64_t i, float want) {
    for (const std::vector<float>& y : all) {
      if (bits_of(y[i]) == bits_of(want)) continue;
      if (found.different++ == 0)
        found.first = static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(i);
    }
  };
  const auto at = [&](std::int64_t i) {
    ++found.asked;
    return nearest.of(op.name,
                      value_of(static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(i)));
  };
  const std::function<void(std::int64_t, float, std::int64_t, float)> between =
      [&](std::int64_t low, float of_low, std::int64_t high, float of_high) {
        if (bits_of(of_low) == bits_of(of_high)) {
          for (std::int64_t i = low + 1; i < high; ++i) look(i, of_low);
        } else if (high - low > 1) {
          const std::int64_t middle = low + (high - low) / 2;
          const float of_middle = at(middle);
          look(middle, of_middle);
          between(low, of_low, middle, of_middle);
          between(middle, of_middle, high, of_high);
        }
      };
  const float begin = at(0), end = at(count - 1);
  look(0, begin);
  look(count - 1, end);
  between(0, begin, count - 1, end);
  found.values += count;
}

constexpr std::int64_t stretch = 1 << 14;

/// Ranges of patterns that start at `begins`.
void check(const char* what, const std::vector<std::uint64_t>& begins, std::int64_t count,
           std::int64_t of_sigmoid, std::int64_t of_log) {
  for (const char* name : functions) {
    const Op& op = *find_op(name);
    Found found;
    parallel_for(available_cores(), static_cast<std::int64_t>(begins.size()),
                 [&](std::int64_t k) { check_stretch(op, begins[k], count, found); });
    std::printf(
        "%s, %s: %lld values of %d implementations, %lld compared with MPFR, %lld are not the "
        "nearest\n",
        name, what, static_cast<long long>(found.values), op.host ? 2 : 1,
        static_cast<long long>(found.asked), static_cast<long long>(found.different));
    std::fflush(stdout);
    const std::int64_t implementations = op.host ? 2 : 1;
    const std::int64_t known = op.name == "elementary_sigmoid" ? of_sigmoid
                               : op.name == "elementary_log"   ? of_log
                                                               : 0;
    CHECK_MESSAGE(found.different == known * implementations,
                  "first at bits " << found.first.load());
  }
}

}  // namespace

TEST_CASE(
    "elementary: nearest values by MPFR at some of every exponent and where sequences change") {
  std::vector<std::uint64_t> begins;
  for (std::uint64_t exponent = 0; exponent < 512; ++exponent) {
    begins.push_back(exponent << 23);
    begins.push_back(((exponent + 1) << 23) - 64);
    const bool moves =
        exponent % 256 > 100 && exponent % 256 < 135;  // magnitudes from 2^-26 to 2^8
    for (std::uint64_t i = 1; i < (moves ? 64 : 4); ++i) {
      begins.push_back((exponent << 23) + ((exponent * 64 + i) * 0x9E3779B1U) % 0x7FFFC0U);
    }
  }
  for (const float x : {0.70710678F, 1.0F, 2.5F, 4.0F, 3.8325F, 9.01F, 17.3F, 22.0F, 88.7228F,
                        -88.7F, -87.33F, -103.97F, -105.0F}) {
    begins.push_back(std::bit_cast<std::uint32_t>(x) - 32);
    begins.push_back((std::bit_cast<std::uint32_t>(x) ^ 0x80000000U) - 32);
  }
  check("some", begins, 64, 0, 0);
}

TEST_CASE("slow: elementary: nearest values by MPFR at every fp32 value") {
  std::vector<std::uint64_t> begins;
  for (std::uint64_t begin = 0; begin <= 0xFFFFFFFFU; begin += stretch) begins.push_back(begin);
  check("every fp32 value", begins, stretch, 66, 5);
}
