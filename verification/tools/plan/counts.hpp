#pragma once
// Counts by others for the same model: the ZeRO paper, DeepSpeed's estimators, Megatron-LM's table,
// and circulating figures.

#include <string>
#include <vector>

#include "verification/tools/plan/plan.hpp"

namespace zeroproof::verification {

/// A count and its assessment.
struct Count {
  std::string what;     ///< "stage 2", "optimizer state"
  std::string formula;  ///< "2 P + 18 P / d"
  double bytes = 0;
  bool right = false;  ///< false: no count of the named quantity gives it
  std::string counts;  ///< bytes of a parameter or an element: "16-bit parameters 2, fp32 master 4"
  std::string why;  ///< one sentence, with the label of the equation or the number of the erratum
};

/// P: parameters of a TP rank; d: ranks that share the state.
std::vector<Count> zero_paper_counts(const Plan& plan);

/// estimate_zero2_model_states_mem_needs and estimate_zero3_model_states_mem_needs without offload
/// (deepspeedai/DeepSpeed, deepspeed/runtime/zero/stage_1_and_2.py and stage3.py). The largest
/// layer is the largest unit here.
std::vector<Count> deepspeed_counts(const Plan& plan);

/// The table of Megatron-LM's documentation of its distributed optimizer, for its three pairs of
/// types, without and with that optimizer [Megatron:memory].
std::vector<Count> megatron_counts(const Plan& plan);

/// Circulating figures for 175e9 parameters, scaled to this model: 700 GB, 1400 GB, 2100 GB of
/// state; 350 GB "sharded".
std::vector<Count> circulating_counts(const Plan& plan);

}  // namespace zeroproof::verification
