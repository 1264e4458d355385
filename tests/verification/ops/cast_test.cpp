// Casts of every implementation against the oracle: streams, every code of every narrow format, and
// (slow) every float, in vector bodies and in tails.

#include <doctest.h>

#include <set>

#include "common/base/float_formats.hpp"
#include "oracle_cast_operations.hpp"
#include "oracle_stream.hpp"

namespace cast_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

/// Runs an implementation over all elements in calls of `piece` elements: a piece shorter than a
/// vector runs only tails.
void run_in_pieces(const Operation& op, const Implementation& implementation, const Operands& o,
                   std::int64_t piece) {
  const std::int64_t in_size = num_bytes(op.in_type), out_size = num_bytes(op.out_types[0]);
  for (std::int64_t i = 0; i < o.numel; i += piece) {
    Operands part;
    part.numel = std::min(piece, o.numel - i);
    part.first = o.first + static_cast<std::uint64_t>(i);
    part.in[0] = static_cast<std::byte*>(o.in[0]) + i * in_size;
    part.out[0] = static_cast<std::byte*>(o.out[0]) + i * out_size;
    op.run(implementation, implementation.exec, 0, part);
  }
}

/// bits(i) for i in [0, count) through bodies and, in every block for which tails(block) is true, through tails.
template <class Bits, class Tails>
void every(const Operation& op, const char* what, std::int64_t count, Bits&& bits, Tails&& tails) {
  constexpr std::int64_t block = 1 << 14;
  const std::vector<Implementation> implementations = implementations_for(op);
  Tally tally;
  parallel_for(available_cores(), (count + block - 1) / block, [&](std::int64_t b) {
    thread_local Workspace expected_space, actual_space;
    const std::int64_t numel = std::min(block, count - b * block);
    Operands expected = expected_space.prepare(op, numel);
    Operands actual = actual_space.prepare(op, numel);
    actual.in = expected.in;
    actual.first = expected.first = static_cast<std::uint64_t>(b * block);
    for (std::int64_t i = 0; i < numel; ++i)
      static_cast<std::uint32_t*>(expected.in[0])[i] = bits(b * block + i);
    op.judge(0, expected);
    for (const Implementation& implementation : implementations) {
      op.run(implementation, implementation.exec, 0, actual);
      tally.compare(
          {&op, &implementation, Family::every_pattern, static_cast<std::uint64_t>(b * block), 0},
          expected, actual, false, false);
      if (!tails(b) || implementation.name == "device") continue;
      run_in_pieces(op, implementation, actual, 3);
      tally.compare(
          {&op, &implementation, Family::every_pattern, static_cast<std::uint64_t>(b * block), 0},
          expected, actual, false, false);
    }
  });
  report(op, what, count, implementations.size(), tally);
}

/// Neighbours of powers of two, and of every midpoint of two values of a narrow format.
std::vector<std::uint32_t> edges() {
  std::set<std::uint32_t> magnitudes;
  const auto around = [&](std::uint32_t middle, std::uint32_t distance) {
    for (std::uint32_t i = 0; i <= 2 * distance; ++i)
      magnitudes.insert((middle + i - distance) & 0x7FFFFFFFU);
  };
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) around(exponent << 23, 2);
  for (std::uint32_t code = 0; code < 0x7F80; ++code) around((code << 16) + 0x8000U, 1);
  const auto between = [&](double below, double above) {
    around(std::bit_cast<std::uint32_t>(static_cast<float>((below + above) / 2)), 1);
  };
  for (std::uint16_t c = 0; c < 0x7BFF; ++c)
    between(to_float(fp16{c}), to_float(fp16{static_cast<std::uint16_t>(c + 1)}));
  for (std::uint8_t c = 0; c < 0x7E; ++c)
    between(to_float(e4m3{c}), to_float(e4m3{static_cast<std::uint8_t>(c + 1)}));
  for (std::uint8_t c = 0; c < 0x7B; ++c)
    between(to_float(e5m2{c}), to_float(e5m2{static_cast<std::uint8_t>(c + 1)}));
  for (double overflow : {65520.0, 464.0, 480.0, 61440.0, 65536.0}) between(overflow, overflow);
  std::vector<std::uint32_t> bits(magnitudes.begin(), magnitudes.end());
  for (std::uint32_t magnitude : magnitudes) bits.push_back(magnitude | 0x80000000U);
  return bits;
}

}  // namespace

TEST_CASE("stream: narrowing") {
  for (const Operation& op : narrow_operations()) stream(op, stream_length(ordinary_length));
}

TEST_CASE("slow: stream: narrowing") {
  for (const Operation& op : narrow_operations()) stream(op, stream_length(slow_length));
}

TEST_CASE("widening: every code, in bodies and in tails") {
  for (const Operation& op : widen_operations()) {
    stream(op, 65536);  // 8-bit codes come 256 times, at every place of a vector
    Workspace expected_space, actual_space;
    const Operands expected = expected_space.prepare(op, 65536);
    Operands actual = actual_space.prepare(op, 65536);
    actual.in = expected.in;
    fill_inputs(op, Family::every_pattern, 0, expected);
    op.judge(0, expected);
    Tally tally;
    const std::vector<Implementation> implementations = implementations_for(op);
    for (const Implementation& implementation : implementations) {
      for (std::int64_t piece : {1, 3, 7, 15}) {
        if (implementation.name == "device") continue;
        run_in_pieces(op, implementation, actual, piece);
        tally.compare({&op, &implementation, Family::every_pattern, 0, 0}, expected, actual, false,
                      false);
      }
    }
    report(op, "every code in calls of 1, 3, 7 and 15 elements", 65536, 4 * implementations.size(),
           tally);
  }
}

TEST_CASE("narrowing: edges of every exponent and every tie of every format") {
  const std::vector<std::uint32_t> bits = edges();
  for (const Operation& op : narrow_operations()) {
    every(
        op, "edges and ties", static_cast<std::int64_t>(bits.size()),
        [&](std::int64_t i) { return bits[i]; }, [](std::int64_t) { return true; });
  }
}

TEST_CASE("nightly: narrowing: every 64th float") {
  for (const Operation& op : narrow_operations()) {
    every(
        op, "every 64th float", std::int64_t{1} << 26,
        [](std::int64_t i) { return static_cast<std::uint32_t>(64 * i + i * 37 % 64); },
        [](std::int64_t block) { return block % 16 == 0; });
  }
}

TEST_CASE("slow: narrowing: every float") {
  for (const Operation& op : narrow_operations()) {
    SUBCASE(op.name.c_str()) {  // --subcase=cast_e4m3 runs one of them
      every(
          op, "every float", std::int64_t{1} << 32,
          [](std::int64_t i) { return static_cast<std::uint32_t>(i); },
          [](std::int64_t) { return true; });
    }
  }
}

}  // namespace cast_test
