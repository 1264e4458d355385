#pragma once
// The recording of a training run: a folder with a file for each rank and step (README.md).

#include <map>
#include <string>
#include <vector>

#include "verification/tools/judge_run/rank_file.hpp"

namespace zeroproof::verification {

/// All ranks of one step, which agree in everything that ranks must agree in.
struct RunStep {
  std::vector<RankFile> ranks;

  std::int64_t number() const { return ranks.front().step; }
  std::int64_t world() const { return static_cast<std::int64_t>(ranks.size()); }
  std::size_t num_parameters() const { return ranks.front().parameters.size(); }
  const RunParameter& parameter(std::size_t p, std::size_t rank = 0) const {
    return ranks[rank].parameters[p];
  }
  /// Ranks with a recorded element of the parameter that they update; of a replicated one all.
  std::vector<std::size_t> owners(std::size_t p) const;
  /// True if any owner has such a tensor.
  bool any_has(const std::string& kind, std::size_t p) const;
  /// True if every owner has it.
  bool all_have(const std::string& kind, std::size_t p) const;
  /// True if a gradient was applied or reduced: parameters without one take no part in a step.
  bool has_gradient(std::size_t p) const {
    return any_has("before.grad", p) || any_has("reduced", p);
  }
};

/// The files of every step, by number. Errors (ErrorCode::io): no such folder, a file whose name begins as that of a
/// recording and goes on otherwise, nothing recorded, a rank that is missing.
std::map<std::int64_t, std::vector<std::string>> recorded_steps(const std::string& folder);

/// Reads and checks the files of one step. Errors (ErrorCode::io): as RankFile, and ranks that disagree, elements
/// without an owner or with two.
RunStep read_run_step(const std::vector<std::string>& files);

}  // namespace zeroproof::verification
