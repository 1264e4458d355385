// R17: the bits of an element do not depend on its position. Every operation of the tables runs on
// data that is shifted by 0 to twice the widest vector, at odd lengths, on every instruction set of
// this machine; the result at offset 0 on the baseline is the reference. A new host implementation
// is one more row.

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "cuda/host/base/isa.hpp"
#include "cuda/host/operations.hpp"
#include "tests/cuda/position/position_operations.hpp"
#include "tests/cuda/position/position_run.hpp"
#include "tests/cuda/position/position_updates.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
namespace host = zeroproof::cuda::host;

constexpr std::int64_t lengths[] = {0,  1,  2,  3,   7,   8,   15,   16,   17,  31,
                                    33, 63, 65, 127, 129, 257, 1023, 1025, 2049};

std::vector<PositionOperation> all_operations() {
  std::vector<PositionOperation> all;
  for (const auto& part : {gradient_operations(), cast_operations(), norm_operations(),
                           tests::update_operations(), tests::fused_operations()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Exec exec_of(Isa isa, int threads = 1) {
  Exec exec;
  exec.isa = isa;
  exec.num_threads = threads;
  return exec;
}

/// The offset of buffer b when the narrowest one is at `offset`: wider elements wrap around
/// earlier.
std::int64_t place(const PositionOperation& op, std::size_t b, std::int64_t offset) {
  return offset % (offset_bytes / num_bytes(op.buffers[b].dtype) + 1);
}

struct Count {
  std::int64_t runs = 0, differing = 0, returned = 0, touched = 0;
};

void compare(const PositionOperation& op, const Run& expected, std::int64_t from, Run& actual,
             std::int64_t numel, const Exec& exec, bool same_number, Count& count) {
  actual.run(exec);
  ++count.runs;
  count.differing += differing(op, expected, from, actual, numel);
  if (same_number) count.returned += actual.number() == expected.number() ? 0 : 1;
  count.touched += actual.neighbours_untouched() ? 0 : 1;
}

/// The same data at other addresses: all buffers moved together, and each one alone.
void check_addresses(const PositionOperation& op, std::int64_t numel, Count& count) {
  Run expected(
      op, 0, numel, [](std::size_t) { return 0; }, Margins::plain);
  expected.run(exec_of(Isa::x86_64));
  const auto buffers = static_cast<std::int64_t>(op.buffers.size());
  for (const Isa isa : host::supported_isas()) {
    for (std::int64_t offset = 0; offset <= offsets_of(op); ++offset) {
      Run together(op, 0, numel, [&](std::size_t b) { return place(op, b, offset); });
      compare(op, expected, 0, together, numel, exec_of(isa, 1 + static_cast<int>(offset % 2)),
              true, count);
      const auto moved = static_cast<std::size_t>(offset % buffers);
      Run alone(op, 0, numel, [&](std::size_t b) { return b == moved ? place(op, b, offset) : 0; });
      compare(op, expected, 0, alone, numel, exec_of(isa), true, count);
    }
  }
}

/// A window of a longer buffer, which moves an element of the vector body into the tail and vice
/// versa.
void check_windows(const PositionOperation& op, std::int64_t numel, Count& count) {
  if (!op.elementwise) return;
  const std::int64_t last = offsets_of(op);
  Run whole(
      op, 0, numel + last, [](std::size_t) { return 0; }, Margins::plain);
  whole.run(exec_of(Isa::x86_64));
  for (const Isa isa : host::supported_isas()) {
    for (std::int64_t first = 0; first <= last; ++first) {
      Run window(op, first, numel, [&](std::size_t b) { return place(op, b, first); });
      compare(op, whole, first, window, numel, exec_of(isa), false, count);
    }
  }
}

/// True if the operation changed something: an operation without effect has the same bits
/// everywhere.
bool wrote(const PositionOperation& op) {
  constexpr std::int64_t numel = 257;
  Run run(op, 0, numel, [](std::size_t) { return 0; });
  const Run before = run;
  run.run(exec_of(Isa::x86_64));
  return op.elementwise ? differing(op, before, 0, run, numel) > 0 : run.number() != Numbers{};
}

}  // namespace

TEST_CASE(
    "positions: every operation at every offset, length and instruction set gives the bits of "
    "offset 0") {
  for (const PositionOperation& op : all_operations()) {
    Count count;
    for (const std::int64_t numel : lengths) {
      check_addresses(op, numel, count);
      check_windows(op, numel, count);
    }
    CAPTURE(op.name);
    CHECK(wrote(op));
    CHECK(count.differing == 0);
    CHECK(count.returned == 0);
    CHECK(count.touched == 0);
    CHECK(count.runs > 0);
    std::printf("positions %-34s %6lld runs\n", op.name.c_str(),
                static_cast<long long>(count.runs));
  }
}

TEST_CASE("positions: several blocks and threads are the bits of their pieces") {
  constexpr std::int64_t numel = 44001, piece = 1100;  // more than two blocks of work sharing
  const auto no_offset = [](std::size_t) { return 0; };
  for (const PositionOperation& op : all_operations()) {
    Count count;
    Run whole(op, 0, numel, no_offset, Margins::plain);
    whole.run(exec_of(Isa::best, 3));
    if (op.elementwise) {
      for (std::int64_t first = 0; first < numel; first += piece) {
        const std::int64_t length = std::min(piece, numel - first);
        Run part(op, first, length, no_offset);
        compare(op, whole, first, part, length, exec_of(Isa::best), false, count);
      }
    } else {
      Run alone(op, 0, numel, no_offset);
      compare(op, whole, 0, alone, numel, exec_of(Isa::best), true, count);
    }
    CAPTURE(op.name);
    CHECK(whole.neighbours_untouched());
    CHECK(count.differing == 0);
    CHECK(count.returned == 0);
    CHECK(count.touched == 0);
  }
}

TEST_CASE("positions: the norm forms are sums of their single elements, at every offset") {
  constexpr std::int64_t last = 32;
  std::vector<float> values;
  for (const std::uint32_t bits : input_bits(0, 1063 + last))
    values.push_back(std::bit_cast<float>(bits));
  const Exec baseline = exec_of(Isa::x86_64);
  for (const std::size_t numel : {0, 1, 3, 15, 16, 17, 33, 65, 1023, 1024, 1025, 1063}) {
    for (std::size_t offset = 0; offset <= last; ++offset) {
      const Span<const float> piece = Span<const float>(values).subspan(offset, numel);
      NormLimbs squares, magnitudes;
      std::uint32_t amax = 0;
      for (const float& value : piece) {
        host::grad_norm_exact_accumulate(baseline, {&value, 1}, squares);
        host::grad_abs_accumulate(baseline, {&value, 1}, magnitudes);
        host::grad_max_accumulate(baseline, {&value, 1}, amax);
      }
      for (const Isa isa : host::supported_isas()) {
        NormLimbs got_squares, got_magnitudes;
        std::uint32_t got_amax = 0;
        host::grad_norm_exact_accumulate(exec_of(isa), piece, got_squares);
        host::grad_abs_accumulate(exec_of(isa), piece, got_magnitudes);
        host::grad_max_accumulate(exec_of(isa), piece, got_amax);
        CHECK(numbers_of(got_squares) == numbers_of(squares));
        CHECK(numbers_of(got_magnitudes) == numbers_of(magnitudes));
        CHECK(got_amax == amax);
      }
    }
  }
}
