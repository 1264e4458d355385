// Blocks and their scales by exhaustion, every implementation against R22 in double and the casts
// of the oracle: every bf16 value and every 8-bit code under every scale that is a power of two,
// and scales of every amax. With cast_test, which has every float through every cast, this is every
// float under every such scale: the product is one of those floats.

#include <doctest.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "oracle_format_operations.hpp"
#include "oracle_stream.hpp"

namespace every_scale_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

/// Scales and their inverses that have a code in e8m0: 2^-127 .. 2^127.
constexpr int largest_exponent = 127;

/// One block of so many elements.
BlockGrid one_block(std::size_t numel) {
  return {1, static_cast<std::int64_t>(numel), 1, static_cast<std::int64_t>(numel)};
}

/// Prints the number of comparisons, by every implementation.
void say(const std::string& what, std::int64_t compared, std::size_t implementations,
         std::int64_t differ) {
  std::printf("%s: %lld x %zu implementations, %lld differ\n", what.c_str(),
              static_cast<long long>(compared), implementations, static_cast<long long>(differ));
  CHECK(implementations > 1);
  CHECK(differ == 0);
}

/// All NaNs are one code.
template <class T>
bool same(T a, T b) {
  return a.bits == b.bits || (std::isnan(to_float(a)) && std::isnan(to_float(b)));
}

/// Codes of all 65,536 bf16 values, under every scale.
template <class T, class Cast, class Function>
void check_quantize(Function* Implementation::*quantize, Cast* saturate, Cast* nonfinite) {
  std::vector<float> values(65536);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = from_bits(static_cast<std::uint32_t>(i) << 16);
  const BlockGrid grid = one_block(values.size());
  const std::vector<Implementation> implementations = implementations_with(quantize);
  std::atomic<std::int64_t> codes = 0, differ = 0;
  parallel_for(available_cores(), 2 * largest_exponent + 1, [&](std::int64_t turn) {
    const std::vector<float> scale = {std::ldexp(1.0F, static_cast<int>(turn) - largest_exponent)};
    for (const Overflow overflow : {Overflow::saturate, Overflow::nonfinite}) {
      std::vector<T> want(values.size()), got(values.size());
      std::vector<float> scaled(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double product = double{values[i]} * double{scale[0]};
        scaled[i] = static_cast<float>(product);
      }
      (overflow == Overflow::nonfinite ? nonfinite : saturate)(
          scaled.data(), bits_of(Span<T>(want)), scaled.size());
      for (const Implementation& implementation : implementations) {
        (implementation.*quantize)(implementation.exec, {grid, QuantizedValue::direct, overflow}, 0,
                                   values, Span<const float>(scale), Span<T>(got));
        std::int64_t wrong = 0;
        for (std::size_t i = 0; i < values.size(); ++i) wrong += same(want[i], got[i]) ? 0 : 1;
        differ += wrong;
      }
      codes += std::ssize(values);
    }
  });
  say("every bf16 value as " + std::string(name(dtype_of<T>)), codes, implementations.size(),
      differ);
}

/// Values of all 256 codes, each one rounding of an exact product.
template <class T, class Function>
void check_dequantize(Function* Implementation::*dequantize) {
  std::vector<T> codes(256);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = T{static_cast<std::uint8_t>(i)};
  const BlockGrid grid = one_block(codes.size());
  const std::vector<Implementation> implementations = implementations_with(dequantize);
  std::int64_t values = 0, differ = 0;
  for (int exponent = -largest_exponent; exponent <= largest_exponent; ++exponent) {
    const std::vector<float> scale_inv = {std::ldexp(1.0F, exponent)};
    std::vector<float> got(codes.size());
    for (const Implementation& implementation : implementations) {
      (implementation.*dequantize)(implementation.exec, grid, 0, Span<const T>(codes),
                                   Span<const float>(scale_inv), got);
      for (std::size_t i = 0; i < codes.size(); ++i) {
        const auto want = static_cast<float>(std::ldexp(double{to_float(codes[i])}, exponent));
        const bool right = std::isnan(want) ? std::isnan(got[i])
                                            : std::bit_cast<std::uint32_t>(want) ==
                                                  std::bit_cast<std::uint32_t>(got[i]);
        differ += right ? 0 : 1;
      }
    }
    values += std::ssize(codes);
  }
  say("every code of " + std::string(name(dtype_of<T>)), values, implementations.size(), differ);
}

/// The scale of an amax; 0 without one.
double usable(std::uint32_t amax) { return amax < 0x7F800000U ? double{from_bits(amax)} : 0; }

double largest(Fp8 format) { return format == Fp8::e5m2 ? 57344 : 448; }

/// R22, current: a quotient rounded once to fp32, at most the largest number, or the power of two
/// in it.
float current_scale(const CurrentScaling& settings, std::uint32_t amax) {
  const double a = amax < 0x7F800000U ? std::max(usable(amax), double{settings.epsilon}) : 0;
  if (a == 0) return 1;
  const double quotient = largest(settings.format) / a;
  const float scale = std::min(static_cast<float>(quotient), std::numeric_limits<float>::max());
  return settings.power_of_two ? std::ldexp(1.0F, std::ilogb(scale)) : scale;
}

bool judge_current(int set, const Operands& o) {
  for (std::size_t i = 0; i < o.size(); ++i) {
    const float scale = current_scale(current_sets[set], o.input<std::uint32_t>(0)[i]);
    const double inverse = 1 / double{scale};
    o.output<float>(0)[i] = scale;
    o.output<float>(1)[i] = static_cast<float>(inverse);
  }
  return false;
}

/// R22, mxfp8: the exponent above amax / largest, computed with two roundings to fp32.
bool judge_mxfp8(int set, const Operands& o) {
  const double inverse = static_cast<float>(1 / largest(static_cast<Fp8>(set)));
  for (std::size_t i = 0; i < o.size(); ++i) {
    const std::uint32_t amax = o.input<std::uint32_t>(0)[i];
    const double product = double{from_bits(amax)} * inverse;
    const float quotient = amax > 0x7F800000U ? std::nanf("") : static_cast<float>(product);
    std::uint8_t code = 0;
    oracle_cast_e8m0(&quotient, &code, 1);
    o.output<e8m0>(0)[i] = e8m0{code};
    o.output<float>(1)[i] = code == 255 ? quotient : std::ldexp(1.0F, 127 - code);
  }
  return false;
}

Operation judged(Operation op, bool (*judge)(int, const Operands&)) {
  op.judge = judge;
  return op;
}

std::vector<Operation> scale_operations() {
  return {judged(current_operation(), judge_current), judged(mxfp8_operation(), judge_mxfp8)};
}

/// Scales of amaxes: bits(i) for i in [0, count).
template <class Bits>
void check_amaxes(const Operation& op, const std::string& what, std::int64_t count,
                  const Bits& bits) {
  constexpr std::int64_t block = 1 << 14;
  const std::vector<Implementation> implementations = implementations_for(op);
  Tally tally;
  parallel_for(available_cores(), (count + block - 1) / block, [&](std::int64_t b) {
    thread_local Workspace expected_space, actual_space;
    const std::int64_t numel = std::min(block, count - b * block);
    const Operands expected = expected_space.prepare(op, numel);
    Operands actual = actual_space.prepare(op, numel);
    actual.in = expected.in;
    for (std::int64_t i = 0; i < numel; ++i)
      static_cast<std::uint32_t*>(expected.in[0])[i] = bits(b * block + i);
    for (int set = 0; set < op.sets; ++set) {
      op.judge(set, expected);
      for (const Implementation& implementation : implementations) {
        op.run(implementation, implementation.exec, set, actual);
        tally.compare({&op, &implementation, Family::every_pattern,
                       static_cast<std::uint64_t>(b * block), set},
                      expected, actual, false, false);
      }
    }
  });
  report(op, what, count * op.sets, implementations.size(), tally);
}

/// Ones of every exponent, and sevens, the significands of largest values, with their neighbours.
std::vector<std::uint32_t> edges() {
  std::vector<std::uint32_t> all;
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (const std::uint32_t fraction : {0U, 0x600000U}) {
      for (std::uint32_t i = 0; i <= 16; ++i) all.push_back((exponent << 23 | fraction) + i - 8);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("every bf16 value under every scale that is a power of two") {
  check_quantize<e4m3>(&Implementation::block_quantize_e4m3, oracle_cast_e4m3,
                       oracle_cast_e4m3_nonfinite);
  check_quantize<e5m2>(&Implementation::block_quantize_e5m2, oracle_cast_e5m2,
                       oracle_cast_e5m2_nonfinite);
}

TEST_CASE("every code of 8 bits under every scale that is a power of two") {
  check_dequantize<e4m3>(&Implementation::block_dequantize_e4m3);
  check_dequantize<e5m2>(&Implementation::block_dequantize_e5m2);
}

TEST_CASE("scales of every 2,039th amax, and at the edges of exponents") {
  const std::vector<std::uint32_t> bits = edges();
  for (const Operation& op : scale_operations()) {
    check_amaxes(op, "every 2,039th amax", (std::int64_t{1} << 32) / 2039,
                 [](std::int64_t i) { return static_cast<std::uint32_t>(2039 * i); });
    check_amaxes(op, "edges", std::ssize(bits), [&](std::int64_t i) { return bits[i]; });
  }
}

TEST_CASE("slow: scales of every amax") {
  for (const Operation& op : scale_operations()) {
    check_amaxes(op, "every amax", std::int64_t{1} << 32,
                 [](std::int64_t i) { return static_cast<std::uint32_t>(i); });
  }
}

}  // namespace every_scale_test
