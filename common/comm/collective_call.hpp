#pragma once
// What a rank says about its collective call, and how the calls of all ranks are compared before data moves.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/span.hpp"
#include "common/comm/communicator.hpp"

namespace zeroproof {

enum class Collective : std::uint8_t { all_to_all, all_gather, broadcast, all_reduce, barrier };

struct CollectiveCall {
  Collective collective = Collective::barrier;
  IntegerReduce reduce = IntegerReduce::sum;  ///< of all_reduce
  int root = 0;                               ///< of broadcast
  std::int64_t sequence = 0;                  ///< counts the calls on this communicator, from 1
  std::vector<std::int64_t> send_bytes;       // [world_size] towards each rank
  std::vector<std::int64_t> recv_bytes;       // [world_size] expected from each rank
};

/// "all_gather #17", "broadcast #3 from root 1", "all_reduce #4 (max)"
std::string describe(const CollectiveCall& call);

/// "rank 2", "ranks 0 and 2", "ranks 0, 1 and 5"
std::string describe_ranks(Span<const int> ranks);

/// "200 ms", "2 s"
std::string describe(std::chrono::milliseconds time);

/// Compares the calls of all ranks, calls[rank]. Returns the whole error message, or nothing if they agree.
/// The text depends on the calls alone, so every rank that has them all comes to the same one.
std::string disagreement(Span<const CollectiveCall> calls);

/// The errors that every kind of communicator words alike. `what` is what the ranks did not do in time:
/// "arrive at".
Error absent_error(Span<const int> missing, const CollectiveCall& call, std::chrono::milliseconds limit,
                   const std::string& what = "arrive at");
Error interrupted_error(Span<const int> missing, const CollectiveCall& call);
Error left_error(Span<const int> left, const CollectiveCall& call);
Error ended_error(int rank, const std::string& reason);

}  // namespace zeroproof
