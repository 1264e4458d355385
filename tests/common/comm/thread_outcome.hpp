#pragma once
// Runs threads of which some fail, and checks the outcome of each. Include doctest.h first.

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/threads.hpp"

namespace zeroproof_test {

inline constexpr std::chrono::milliseconds short_limit{200};
inline constexpr std::chrono::seconds promptly{5};  // generous: the machine may be busy

/// Result of each rank's work: the error's text, or nothing.
struct Outcome {
  std::vector<std::string> texts;
  std::vector<zeroproof::ErrorCode> codes;
  std::string root_cause;
  std::chrono::steady_clock::duration time{};
};

inline Outcome run(zeroproof::ThreadWorld& world,
                   const std::function<void(zeroproof::Communicator&)>& work) {
  Outcome outcome;
  outcome.texts.resize(world.world_size());
  outcome.codes.resize(world.world_size(), zeroproof::ErrorCode::internal);
  const auto begin = std::chrono::steady_clock::now();
  try {
    zeroproof::run_ranks(world, [&](zeroproof::Communicator& comm) {
      const std::size_t rank = static_cast<std::size_t>(comm.rank());
      try {
        work(comm);
      } catch (const zeroproof::Error& error) {
        outcome.texts[rank] = error.what();
        outcome.codes[rank] = error.code();
        throw;
      }
    });
  } catch (const std::exception& error) {
    outcome.root_cause = error.what();
  }
  outcome.time = std::chrono::steady_clock::now() - begin;
  return outcome;
}

inline void check_same_error(const Outcome& outcome, zeroproof::ErrorCode code,
                             const std::string& begin, int except_rank = -1) {
  CHECK(outcome.time < promptly);
  for (std::size_t rank = 0; rank < outcome.texts.size(); ++rank) {
    if (static_cast<int>(rank) == except_rank) continue;
    CAPTURE(rank);
    CHECK(outcome.codes[rank] == code);
    CHECK(outcome.texts[rank].substr(0, begin.size()) == begin);
    CHECK(outcome.texts[rank] == outcome.texts[except_rank == 0 ? 1 : 0]);
  }
}

}  // namespace zeroproof_test
