// Blocks and their scales by exhaustion, every implementation against the oracle: every bf16 value and every 8-bit code
// under every scale that is a power of two, and scales of every amax. With cast_test, which has every float through
// every cast, this is every float under every such scale: the product is one of those floats.

#include <doctest.h>

#include <atomic>
#include <cmath>

#include "oracle_format_operations.hpp"
#include "oracle_stream.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

/// Scales and their inverses that have a code in e8m0: 2^-127 .. 2^127.
constexpr int largest_exponent = 127;

/// One block of so many elements.
BlockGrid one_block(std::size_t numel) {
  return {1, static_cast<std::int64_t>(numel), 1, static_cast<std::int64_t>(numel)};
}

/// What was compared, by every implementation.
void say(const std::string& what, std::int64_t compared, std::size_t implementations, std::int64_t differ) {
  std::printf("%s: %lld x %zu implementations, %lld differ\n", what.c_str(), static_cast<long long>(compared),
              implementations, static_cast<long long>(differ));
  CHECK(implementations > 1);
  CHECK(differ == 0);
}

/// All NaNs are one code.
template <class T>
bool same(T a, T b) {
  return a.bits == b.bits || (std::isnan(to_float(a)) && std::isnan(to_float(b)));
}

/// Codes of all 65,536 bf16 values, under every scale.
template <class T, class Function>
void check_quantize(Function* Twin::*quantize) {
  constexpr bool is_e5m2 = dtype_of<T> == DType::e5m2;
  std::vector<float> values(65536);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = from_bits(static_cast<std::uint32_t>(i) << 16);
  const BlockGrid grid = one_block(values.size());
  const oracle_grid g = plain(grid);
  const std::vector<Twin> twins = twins_with(quantize);
  std::atomic<std::int64_t> codes = 0, differ = 0;
  parallel_for(available_cores(), 2 * largest_exponent + 1, [&](std::int64_t turn) {
    const std::vector<float> scale = {std::ldexp(1.0F, static_cast<int>(turn) - largest_exponent)};
    for (const Overflow overflow : {Overflow::saturate, Overflow::nonfinite}) {
      std::vector<T> want(values.size()), got(values.size());
      oracle_block_quantize(&g, 0, overflow == Overflow::nonfinite, is_e5m2, 0, values.data(), scale.data(),
                            bits_of(Span<T>(want)), values.size());
      for (const Twin& twin : twins) {
        (twin.*quantize)(twin.exec, {grid, QuantizedValue::direct, overflow}, 0, values,
                         Span<const float>(scale), Span<T>(got));
        std::int64_t wrong = 0;
        for (std::size_t i = 0; i < values.size(); ++i) wrong += same(want[i], got[i]) ? 0 : 1;
        differ += wrong;
      }
      codes += std::ssize(values);
    }
  });
  say("every bf16 value as " + std::string(name(dtype_of<T>)), codes, twins.size(), differ);
}

/// Values of all 256 codes, which one rounding of an exact product has to give.
template <class T, class Function>
void check_dequantize(Function* Twin::*dequantize) {
  std::vector<T> codes(256);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = T{static_cast<std::uint8_t>(i)};
  const BlockGrid grid = one_block(codes.size());
  const std::vector<Twin> twins = twins_with(dequantize);
  std::int64_t values = 0, differ = 0;
  for (int exponent = -largest_exponent; exponent <= largest_exponent; ++exponent) {
    const std::vector<float> scale_inv = {std::ldexp(1.0F, exponent)};
    std::vector<float> got(codes.size());
    for (const Twin& twin : twins) {
      (twin.*dequantize)(twin.exec, grid, 0, Span<const T>(codes), Span<const float>(scale_inv), got);
      for (std::size_t i = 0; i < codes.size(); ++i) {
        const auto want = static_cast<float>(std::ldexp(double{to_float(codes[i])}, exponent));
        const bool right = std::isnan(want)
                               ? std::isnan(got[i])
                               : std::bit_cast<std::uint32_t>(want) == std::bit_cast<std::uint32_t>(got[i]);
        differ += right ? 0 : 1;
      }
    }
    values += std::ssize(codes);
  }
  say("every code of " + std::string(name(dtype_of<T>)), values, twins.size(), differ);
}

/// Scales of amaxes: bits(i) for i in [0, count).
template <class Bits>
void check_amaxes(const Operation& op, const std::string& what, std::int64_t count, const Bits& bits) {
  constexpr std::int64_t block = 1 << 14;
  const std::vector<Twin> twins = twins_for(op);
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
      for (const Twin& twin : twins) {
        op.run(twin, twin.exec, set, actual);
        tally.compare({&op, &twin, Family::every_pattern, static_cast<std::uint64_t>(b * block), set},
                      expected, actual, false, false);
      }
    }
  });
  report(op, what, count * op.sets, twins.size(), tally);
}

/// Ones of every exponent, and sevens, which largest values are made of, with their neighbours.
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
  check_quantize<e4m3>(&Twin::block_quantize_e4m3);
  check_quantize<e5m2>(&Twin::block_quantize_e5m2);
}

TEST_CASE("every code of 8 bits under every scale that is a power of two") {
  check_dequantize<e4m3>(&Twin::block_dequantize_e4m3);
  check_dequantize<e5m2>(&Twin::block_dequantize_e5m2);
}

TEST_CASE("scales of every 2,039th amax, and at the edges of exponents") {
  const std::vector<std::uint32_t> bits = edges();
  for (const Operation& op : {current_operation(), mxfp8_operation()}) {
    check_amaxes(op, "every 2,039th amax", (std::int64_t{1} << 32) / 2039,
                 [](std::int64_t i) { return static_cast<std::uint32_t>(2039 * i); });
    check_amaxes(op, "edges", std::ssize(bits),
                 [&](std::int64_t i) { return bits[static_cast<std::size_t>(i)]; });
  }
}

TEST_CASE("slow: scales of every amax") {
  for (const Operation& op : {current_operation(), mxfp8_operation()}) {
    check_amaxes(op, "every amax", std::int64_t{1} << 32,
                 [](std::int64_t i) { return static_cast<std::uint32_t>(i); });
  }
}
