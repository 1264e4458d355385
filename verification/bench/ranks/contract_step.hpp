#pragma once
// What the ranks' steps must leave behind: the contract's step on one rank, with the reference's operations.

#include <cstdint>
#include <vector>

#include "common/base/dtype.hpp"

namespace zeroproof::verification::bench {

struct ContractResult {
  std::vector<float> master, exp_avg, exp_avg_sq;  // [numel]
  std::vector<bf16> param;                         // [numel]
};

/// Leaves are made anew and folded by the tree of R11.
ContractResult contract_steps(std::int64_t numel, std::int64_t micro_batches, std::int64_t steps, bool clips);

}  // namespace zeroproof::verification::bench
