#pragma once
// The engine that compares every element-wise operation of every implementation with the oracle:
// long streams, every position in a buffer (R17), several thread counts. Include after doctest.h.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/base/parallel_for.hpp"
#include "oracle_compare.hpp"

namespace zeroproof::oracle {

/// Elements per operation and family: ZP_ELEMENTS, or the default of the test.
inline std::int64_t stream_length(std::int64_t usual) {
  const char* text = std::getenv("ZP_ELEMENTS");
  return text == nullptr ? usual : std::atoll(text);
}

inline constexpr std::int64_t ordinary_length = 1 << 21;
inline constexpr std::int64_t slow_length = 100'000'000;

inline std::vector<Implementation> implementations_for(const Operation& op) {
  std::vector<Implementation> implementations = all_implementations();
  std::erase_if(implementations,
                [&](const Implementation& implementation) { return !op.has(implementation); });
  return implementations;
}

inline void report(const Operation& op, const std::string& what, std::int64_t elements,
                   std::size_t implementations, const Tally& tally) {
  std::printf("elementwise %s, %s: %lld elements x %zu implementations, %lld differ\n",
              op.name.c_str(), what.c_str(), static_cast<long long>(elements), implementations,
              static_cast<long long>(tally.differ()));
  std::fflush(stdout);
  CHECK_MESSAGE(tally.differ() == 0, tally.first_difference());
}

/// Blocks alternate over the scalar sets and the families; within a set and family the indices are
/// consecutive.
inline void stream(const Operation& op, std::int64_t per_family) {
  constexpr std::int64_t block =
      1 << 13;  // all buffers of an operation fit into the second-level cache
  const std::vector<Implementation> implementations = implementations_for(op);
  const auto families = static_cast<std::int64_t>(op.families.size());
  const std::int64_t blocks = (per_family + block - 1) / block;
  Tally tally;
  parallel_for(available_cores(), blocks * families, [&](std::int64_t b) {
    thread_local Workspace expected_space, actual_space;
    const std::int64_t turn = b / families;
    const std::int64_t numel = std::min(block, per_family - turn * block);
    const Family family = op.families[b % families];
    const int set = static_cast<int>(turn % op.sets);
    const auto first = static_cast<std::uint64_t>(turn / op.sets * block);
    const Operands expected = expected_space.prepare(op, numel);
    Operands actual = actual_space.prepare(op, numel);
    actual.in = expected.in;
    fill_inputs(op, family, first, expected);
    const bool expected_found = op.judge(set, expected);
    for (const Implementation& implementation : implementations) {
      const bool actual_found = op.run(implementation, implementation.exec, set, actual);
      tally.compare({&op, &implementation, family, first, set}, expected, actual, expected_found,
                    actual_found);
    }
  });
  report(
      op,
      "stream of " + std::to_string(families) + " families, " + std::to_string(op.sets) + " sets",
      per_family * families, implementations.size(), tally);
}

/// Runs one implementation on the elements of `expected`, laid out by `offset`; alias >= 0 writes
/// out[0] over that input.
template <class Offset>
void check_layout(const Place& at, const Operands& expected, bool found, int alias, Offset&& offset,
                  Tally& tally) {
  Workspace space;
  Operands actual = space.prepare(*at.op, expected.numel, offset);
  copy_inputs(*at.op, expected, actual);
  if (alias >= 0) actual.out[0] = actual.in[alias];
  const bool actual_found = at.op->run(*at.implementation, at.implementation->exec, at.set, actual);
  tally.compare(at, expected, actual, found, actual_found);
  if (!space.untouched(*at.op, actual, expected)) {
    tally.add(at.op->name + ": " + at.implementation->name +
              " changed memory outside of its outputs, numel " + std::to_string(expected.numel) +
              ", first operand at offset " + std::to_string(offset(0)) + ", alias " +
              std::to_string(alias));
  }
}

/// Offsets 0..32 and lengths 0..70: all operands at the same offset, at different ones, and in
/// place.
inline void positions(const Operation& op) {
  const std::vector<Implementation> implementations = implementations_for(op);
  constexpr std::int64_t lengths = 71, offsets = Workspace::max_offset + 1;
  Tally tally;
  parallel_for(available_cores(), lengths, [&](std::int64_t numel) {
    thread_local Workspace space;
    for (std::int64_t offset = 0; offset < offsets; ++offset) {
      const std::int64_t turn = numel * offsets + offset;
      const Family family = op.families[static_cast<std::size_t>(turn) % op.families.size()];
      Place at{&op, nullptr, family, static_cast<std::uint64_t>(turn) * 977,
               static_cast<int>(turn / static_cast<std::int64_t>(op.families.size()) % op.sets)};
      const Operands expected = space.prepare(op, numel);
      fill_inputs(op, family, at.first, expected);
      const bool found = op.judge(at.set, expected);
      for (const Implementation& implementation : implementations) {
        at.implementation = &implementation;
        const auto together = [&](int) { return offset; };
        const auto apart = [&](int k) { return (offset + 7 * k) % offsets; };
        check_layout(at, expected, found, -1, together, tally);
        check_layout(at, expected, found, -1, apart, tally);
        for (int alias = 0; alias < op.aliases; ++alias) {
          check_layout(at, expected, found, alias, together, tally);
        }
      }
    }
  });
  report(op, "offsets 0..32 x lengths 0..70", lengths * (lengths - 1) / 2 * offsets,
         implementations.size(), tally);
}

/// Several sizes, from 0 to more than one piece per thread.
inline void thread_counts(const Operation& op) {
  const std::vector<Implementation> implementations = implementations_for(op);
  Tally tally;
  std::int64_t elements = 0;
  std::uint64_t turn = 0;
  Workspace expected_space, actual_space;
  for (std::int64_t numel : {0, 1, 2, 3, 31, 1000, 4097, 65537, 262144 + 17}) {
    const Family family = op.families[turn++ % op.families.size()];
    const int set = static_cast<int>(turn % static_cast<std::uint64_t>(op.sets));
    const Operands expected = expected_space.prepare(op, numel);
    fill_inputs(op, family, turn << 32, expected);
    const bool found = op.judge(set, expected);
    for (const Implementation& implementation : implementations) {
      for (int threads : {1, 2, 3}) {
        Exec exec = implementation.exec;
        exec.num_threads = threads;
        Operands actual = actual_space.prepare(op, numel);
        copy_inputs(op, expected, actual);
        const bool actual_found = op.run(implementation, exec, set, actual);
        tally.compare({&op, &implementation, family, turn << 32, set}, expected, actual, found,
                      actual_found);
        if (!actual_space.untouched(op, actual, expected)) {
          tally.add(op.name + ": " + implementation.name +
                    " changed memory outside of its outputs with " + std::to_string(threads) +
                    " threads, numel " + std::to_string(numel));
        }
      }
    }
    elements += numel;
  }
  report(op, "threads 1 2 3", elements, 3 * implementations.size(), tally);
}

}  // namespace zeroproof::oracle
