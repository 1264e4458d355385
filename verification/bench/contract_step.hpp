#pragma once
// Expected results of steps: the contract's step on one rank, with the reference's operations.

#include <cstdint>
#include <vector>

#include "common/base/dtype.hpp"
#include "common/layout/flat_layout.hpp"

namespace zeroproof::verification::bench {

/// Which steps. Leaves and first state are those of values.hpp.
struct ContractRun {
  const FlatLayout& layout;
  std::int64_t micro_batches = 1;
  std::int64_t num_leaves = 1;  ///< micro-batch j has gradient j mod num_leaves
  std::int64_t steps = 1;
  DType grad_dtype = DType::fp32;  ///< fp32 or bf16; gradients are rounded to it
  int threads = 1;
};

struct ContractResult {
  std::vector<float> master, exp_avg, exp_avg_sq;  // [padded_numel]; any values in the padding
  std::vector<bf16> param;                         // [padded_numel]
};

/// Leaves are generated here again and folded by the tree of R11; the norm is chunk1024, and clips.
ContractResult contract_steps(const ContractRun& run);

}  // namespace zeroproof::verification::bench
