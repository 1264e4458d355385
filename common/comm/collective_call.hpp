#pragma once
// Descriptor of a rank's collective call, and the comparison of all ranks' descriptors before data
// moves.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/span.hpp"
#include "common/comm/communicator.hpp"

namespace zeroproof {

enum class Collective : std::uint8_t {
  all_to_all,
  all_gather,
  broadcast,
  all_reduce,
  barrier,
  reduce_scatter,  ///< the library's own sum of floats
  split,
  shared_window,
};
inline constexpr int num_collectives = 8;

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

/// "all_gather", without the number of the call
const char* name(Collective collective);

/// Names of the ranks of a communicator in messages, besides their numbers.
struct RankNames {
  std::vector<int>
      in_world;  // [world_size] numbers in the world, of a group; empty for the world itself
  std::vector<std::string> hosts;  // [world_size], or empty if all ranks share one
};

/// "rank 2", "ranks 0, 1 and 5"; of a group "rank 2 (rank 5 of the world)"; with several hosts
/// "rank 2 on node b", "ranks 0 and 1 on nodes a and b".
std::string describe_ranks(Span<const int> ranks, const RankNames& names = {});
std::string describe_rank(int rank, const RankNames& names = {});

/// "200 ms", "2 s"
std::string describe(std::chrono::milliseconds time);

/// Compares the calls of all ranks, calls[rank]. Returns the whole error message, or nothing if
/// they agree. The text depends on the calls only, so every rank that has all calls computes the
/// same text.
std::string disagreement(Span<const CollectiveCall> calls, const RankNames& names = {});

/// The errors that all kinds of communicators share. Ranks are numbers in the communicator of the
/// call. `what` is the action that the ranks did not complete in time: "arrive at".
Error absent_error(Span<const int> missing, const CollectiveCall& call,
                   std::chrono::milliseconds limit, const RankNames& names = {},
                   const std::string& what = "arrive at");
Error interrupted_error(Span<const int> missing, const CollectiveCall& call,
                        const RankNames& names = {});
Error left_error(Span<const int> left, const CollectiveCall& call, const RankNames& names = {});
Error ended_error(int rank, const std::string& reason, const RankNames& names = {});

}  // namespace zeroproof
