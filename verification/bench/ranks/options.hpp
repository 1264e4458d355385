#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zeroproof::verification::bench {

struct RankOptions {
  int rounds = 7;
  std::int64_t mib = 64;            ///< fp32 gradient of one rank: 4 bytes per parameter
  std::vector<int> ranks = {2, 4};  ///< one job each; not read inside a job
  std::vector<std::string> malloc = {"installed", "warm"};  ///< one job each; the same
  std::string json;                                         ///< file for the record, "" for none

  /// Parameters: shards of all ranks are equal and end at a chunk.
  std::int64_t numel(int world_size) const;

  /// Of a job: json itself if there is one job, and otherwise with what tells its jobs apart.
  std::string record_of(int job_ranks, const std::string& job_malloc) const;
};

/// Nothing if the program should end now, with `exit_code`.
std::optional<RankOptions> parse_rank_options(int argc, char** argv, int& exit_code);

}  // namespace zeroproof::verification::bench
