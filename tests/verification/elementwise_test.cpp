// Every element-wise operation of every implementation against the oracle, bit for bit: a long stream of
// inputs, every position in a buffer (R17), and several thread counts. ZP_ELEMENTS is the length of the
// streams.

#include <doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/parallel_for.hpp"
#include "oracle_compare.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

std::int64_t stream_length() {
  const char* text = std::getenv("ZP_ELEMENTS");
  return text == nullptr ? 100'000'000 : std::atoll(text);
}

std::vector<Twin> twins_for(const Operation& op) {
  std::vector<Twin> twins = all_twins();
  if (op.host_only) std::erase_if(twins, [](const Twin& twin) { return !twin.is_host; });
  return twins;
}

void report(const Operation& op, const char* what, std::int64_t elements, std::size_t implementations,
            const Tally& tally) {
  std::printf("elementwise %s, %s: %lld elements x %zu implementations, %lld differ\n", op.name, what,
              static_cast<long long>(elements), implementations, static_cast<long long>(tally.differ()));
  std::fflush(stdout);
  CHECK_MESSAGE(tally.differ() == 0, tally.first_difference());
}

/// Blocks take turns over the families and the scalar sets; within a family the indices are consecutive.
void stream(const Operation& op, std::int64_t elements) {
  constexpr std::int64_t block = 1 << 14;  // all buffers of an operation stay in the second-level cache
  const std::vector<Twin> twins = twins_for(op);
  const auto families = static_cast<std::int64_t>(op.families.size());
  Tally tally;
  parallel_for(available_cores(), (elements + block - 1) / block, [&](std::int64_t b) {
    thread_local Workspace expected_space, actual_space;
    const std::int64_t numel = std::min(block, elements - b * block);
    const Family family = op.families[static_cast<std::size_t>(b % families)];
    const int set = static_cast<int>(b / families % op.sets);
    const auto first = static_cast<std::uint64_t>(b / families / op.sets * block);
    const Operands expected = expected_space.prepare(op, numel);
    Operands actual = actual_space.prepare(op, numel);
    actual.in = expected.in;
    fill_inputs(op, family, first, expected);
    const bool expected_found = op.judge(set, expected);
    for (const Twin& twin : twins) {
      const bool actual_found = op.run(twin, twin.exec, set, actual);
      tally.compare({&op, &twin, family, first, set}, expected, actual, expected_found, actual_found);
    }
  });
  report(op, "stream", elements, twins.size(), tally);
}

void copy_inputs(const Operation& op, const Operands& from, const Operands& to) {
  const auto bytes = static_cast<std::size_t>(from.numel * num_bytes(op.in_type));
  for (std::size_t k = 0; k < static_cast<std::size_t>(op.inputs) && bytes > 0; ++k) {
    std::memcpy(to.in[k], from.in[k], bytes);
  }
}

/// Runs every twin on the elements of `expected`, laid out by `offset`; alias >= 0 writes out[0] over that
/// input.
template <class Offset>
void check_layout(const Place& at, const Operands& expected, bool found, int alias, Offset&& offset,
                  Tally& tally) {
  Workspace space;
  Operands actual = space.prepare(*at.op, expected.numel, offset);
  copy_inputs(*at.op, expected, actual);
  if (alias >= 0) actual.out[0] = actual.in[static_cast<std::size_t>(alias)];
  const bool actual_found = at.op->run(*at.twin, at.twin->exec, at.set, actual);
  tally.compare(at, expected, actual, found, actual_found);
  if (!space.untouched(*at.op, actual, expected)) {
    tally.add(std::string(at.op->name) + ": " + at.twin->name +
              " changed memory outside of its outputs, numel " + std::to_string(expected.numel) +
              ", first operand at offset " + std::to_string(offset(0)) + ", alias " + std::to_string(alias));
  }
}

/// Offsets 0..32 and lengths 0..70: all operands at the same offset, at different ones, and in place.
void positions(const Operation& op) {
  const std::vector<Twin> twins = twins_for(op);
  Tally tally;
  std::int64_t elements = 0;
  Workspace space;
  for (std::int64_t numel = 0; numel <= 70; ++numel) {
    for (std::int64_t offset = 0; offset <= Workspace::max_offset; ++offset) {
      const std::int64_t turn = numel * 33 + offset;
      const Family family = op.families[static_cast<std::size_t>(turn) % op.families.size()];
      const Place here{&op, nullptr, family, static_cast<std::uint64_t>(turn) * 977,
                       static_cast<int>(turn % op.sets)};
      const Operands expected = space.prepare(op, numel);
      fill_inputs(op, family, here.first, expected);
      const bool found = op.judge(here.set, expected);
      for (const Twin& twin : twins) {
        Place at = here;
        at.twin = &twin;
        const auto together = [&](int) { return offset; };
        check_layout(at, expected, found, -1, together, tally);
        check_layout(
            at, expected, found, -1, [&](int k) { return (offset + 7 * k) % 33; }, tally);
        for (int alias = 0; alias < op.aliases; ++alias) {
          check_layout(at, expected, found, alias, together, tally);
        }
      }
      elements += numel;
    }
  }
  report(op, "positions", elements, twins.size(), tally);
}

void thread_counts(const Operation& op) {
  const std::vector<Twin> twins = twins_for(op);
  Tally tally;
  std::int64_t elements = 0;
  std::uint64_t turn = 0;
  Workspace expected_space, actual_space;
  for (std::int64_t numel : {0, 1, 2, 3, 31, 1000, 4097, 65537, 300000, 1048576 + 17}) {
    const Family family = op.families[turn++ % op.families.size()];
    const int set = static_cast<int>(turn % static_cast<std::uint64_t>(op.sets));
    const Operands expected = expected_space.prepare(op, numel);
    fill_inputs(op, family, turn << 32, expected);
    const bool found = op.judge(set, expected);
    for (const Twin& twin : twins) {
      for (int threads : {1, 2, 3}) {
        Exec exec = twin.exec;
        exec.num_threads = threads;
        Operands actual = actual_space.prepare(op, numel);
        copy_inputs(op, expected, actual);
        const bool actual_found = op.run(twin, exec, set, actual);
        tally.compare({&op, &twin, family, turn << 32, set}, expected, actual, found, actual_found);
        if (!actual_space.untouched(op, actual, expected)) {
          tally.add(std::string(op.name) + ": " + twin.name + " changed memory outside of its outputs with " +
                    std::to_string(threads) + " threads, numel " + std::to_string(numel));
        }
      }
    }
    elements += numel;
  }
  report(op, "threads 1 2 3", elements, 3 * twins.size(), tally);
}

bool scalars_agree(const Twin& twin, const ScalarCase& c) {
  const oracle_hyper& h = c.hyper;
  oracle_scalars expected{};
  const bool allowed = oracle_step_scalars(&h, c.t, c.log2_loss_scale, c.divisor, &expected) != 0;
  OptimizerHyper hyper{h.lr, h.beta1, h.beta2, h.eps, h.weight_decay, h.bias_correction != 0, std::nullopt};
  if (h.has_max_norm != 0) hyper.max_norm = h.max_norm;
  try {
    const StepScalars actual = twin.step_scalars(hyper, c.t, c.log2_loss_scale, c.divisor);
    return allowed && std::memcmp(&actual, &expected, sizeof actual) == 0;
  } catch (const Error& error) {
    return !allowed && error.code() == ErrorCode::invalid_argument;
  }
}

}  // namespace

TEST_CASE("stream: adamw, unscale, clip, add") {
  for (const Operation& op : arithmetic_operations()) stream(op, stream_length());
}

TEST_CASE("stream: casts") {
  for (const Operation& op : cast_operations()) stream(op, stream_length());
}

TEST_CASE("stream: widening, all patterns") {
  for (const Operation& op : widen_operations()) stream(op, 65536);
}

TEST_CASE("stream: fused unscale, clip, adamw, cast") {
  for (const Operation& op : fused_operations()) stream(op, stream_length() / 4);
}

TEST_CASE("positions: offsets, lengths, in place, neighbours untouched") {
  for (const Operation& op : all_operations()) positions(op);
}

TEST_CASE("threads 1, 2, 3") {
  for (const Operation& op : all_operations()) thread_counts(op);
}

TEST_CASE("found_inf: one bad element anywhere") {
  const Operation unscale = arithmetic_operations()[1];
  const std::vector<Twin> twins = all_twins();
  Tally tally;
  std::int64_t elements = 0;
  Workspace expected_space, actual_space;
  // The last two are finite, but set 6 multiplies by 2^126 (and its neighbours stay finite): judged after the
  // product.
  for (std::uint32_t bad : {0x7FC00000U, 0xFF800001U, 0x7F800000U, 0xFF800000U, 0x40800000U, 0xFF7FFFFFU}) {
    for (std::int64_t numel = 1; numel <= 70; ++numel) {
      for (std::int64_t at = 0; at < numel; ++at) {
        for (int set : {0, 6}) {
          const Operands expected = expected_space.prepare(unscale, numel);
          std::ranges::fill_n(static_cast<float*>(expected.in[0]), numel, 0x1.8p-60F);
          static_cast<float*>(expected.in[0])[at] = from_bits(bad);
          const bool found = unscale.judge(set, expected);
          for (const Twin& twin : twins) {
            const Operands actual = actual_space.prepare(unscale, numel);
            copy_inputs(unscale, expected, actual);
            const bool actual_found = unscale.run(twin, twin.exec, set, actual);
            tally.compare({&unscale, &twin, Family::special, 0, set}, expected, actual, found, actual_found);
          }
          elements += numel;
        }
      }
    }
  }
  report(unscale, "found_inf", elements, twins.size(), tally);
}

TEST_CASE("step scalars") {
  static_assert(sizeof(oracle_scalars) == sizeof(StepScalars));
  constexpr std::uint64_t cases = 200000;
  const std::vector<Twin> twins = all_twins();
  std::int64_t differ = 0;
  std::string first;
  std::int64_t allowed = 0;
  for (std::uint64_t index = 0; index < cases; ++index) {
    const ScalarCase c = index % 2 == 0 ? random_scalar_case(index) : cancelling_scalar_case(index);
    oracle_scalars unused{};
    allowed += oracle_step_scalars(&c.hyper, c.t, c.log2_loss_scale, c.divisor, &unused);
    for (const Twin& twin : twins) {
      if (scalars_agree(twin, c)) continue;
      if (differ++ == 0) first = twin.name + ", case " + std::to_string(index);
    }
  }
  std::printf("elementwise step_scalars: %llu cases (%lld allowed) x %zu implementations, %lld differ\n",
              static_cast<unsigned long long>(cases), static_cast<long long>(allowed), twins.size(),
              static_cast<long long>(differ));
  CHECK_MESSAGE(differ == 0, first);
}

TEST_CASE("tree over 1 to 40 leaves") {
  constexpr std::int64_t numel = 300;
  const std::vector<Twin> twins = all_twins();
  std::vector<std::vector<float>> leaves;
  std::vector<Span<const float>> views;
  std::vector<const float*> pointers;
  std::int64_t differ = 0;
  for (std::uint64_t count = 1; count <= 40; ++count) {
    std::vector<float>& leaf = leaves.emplace_back(numel);
    for (std::size_t i = 0; i < leaf.size();
         ++i) {  // -0 in the first elements, where +0 as a filler would show
      leaf[i] = i < 10
                    ? -0.0F
                    : make_quad(i % 2 == 0 ? Family::training : Family::near_subnormal, count * 1000 + i)[0];
    }
    views.emplace_back(leaf);
    pointers.push_back(leaf.data());
    std::vector<float> scratch(count), expected(numel), actual(numel);
    oracle_tree(pointers.data(), pointers.size(), scratch.data(), expected.data(), expected.size());
    for (const Twin& twin : twins) {
      for (int threads : {1, 2, 3}) {
        Exec exec = twin.exec;
        exec.num_threads = threads;
        std::ranges::fill(actual, 7.0F);
        twin.grad_sum(exec, views, actual);
        differ += std::memcmp(expected.data(), actual.data(), sizeof(float) * numel) != 0;
      }
    }
  }
  std::printf("elementwise tree: 40 trees x %zu implementations, %lld differ\n", 3 * twins.size(),
              static_cast<long long>(differ));
  CHECK(differ == 0);
}
