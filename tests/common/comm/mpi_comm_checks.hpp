#pragma once
// Shared by the modes of mpi_comm_test: checks summed over all ranks, and failures with their time.

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "comm_group_cases.hpp"
#include "common/base/error.hpp"
#include "common/comm/mpi_communicator.hpp"

namespace zeroproof_test {

using namespace zeroproof;

inline constexpr int bad_rank = 1;
inline constexpr std::chrono::milliseconds short_limit{1000};
inline constexpr std::chrono::seconds promptly{15};  // generous: the machine may be busy

class Checks {
 public:
  explicit Checks(int rank) : rank_(rank) {}

  void check(bool condition, const std::string& what) {
    ++done_;
    if (condition) return;
    ++failed_;
    std::fprintf(stderr, "rank %d: FAILED %s\n", rank_, what.c_str());
  }

  /// Sums the failures of all ranks; returns the exit code.
  int agree(Communicator& comm) const {
    std::array<std::uint64_t, 2> sums = {done_, failed_};
    comm.all_reduce(sums, IntegerReduce::sum);
    if (comm.rank() == 0) {
      std::printf("%d ranks: %llu checks %s\n", comm.world_size(),
                  static_cast<unsigned long long>(sums[0]),
                  sums[1] == 0 ? "passed" : "made, some FAILED");
    }
    return sums[1] == 0 ? 0 : 1;
  }

 private:
  int rank_;
  std::uint64_t done_ = 0;
  std::uint64_t failed_ = 0;
};

struct Failure {
  std::string text;
  ErrorCode code = ErrorCode::internal;
  std::chrono::duration<double> time{};
};

inline Failure failure_of(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  Failure failure;
  try {
    call();
  } catch (const Error& error) {
    failure.text = error.what();
    failure.code = error.code();
  }
  failure.time = std::chrono::steady_clock::now() - begin;
  return failure;
}

inline bool starts_with(const std::string& text, const std::string& begin) {
  return text.substr(0, begin.size()) == begin;
}

/// The error must be the same on all living ranks, at once and in later calls.
inline int check_failure(Communicator& comm, const Failure& failure, ErrorCode code,
                         const std::string& begin) {
  Checks checks(comm.rank());
  checks.check(failure.code == code && starts_with(failure.text, begin), "error: " + failure.text);
  checks.check(failure.time < promptly, "took " + std::to_string(failure.time.count()) + " s");
  const Failure later = failure_of([&] { comm.barrier(); });
  checks.check(later.text == failure.text && later.code == code, "later error: " + later.text);
  const auto fresh = make_mpi_communicator();
  std::vector<Bytes> texts(comm.world_size(), Bytes(failure.text.size()));
  fresh->all_gather(std::as_bytes(Span<const char>(failure.text)), writable(texts));
  for (const Bytes& text : texts) checks.check(text == texts[0], "the text differs between ranks");
  return checks.agree(*fresh);
}

}  // namespace zeroproof_test
