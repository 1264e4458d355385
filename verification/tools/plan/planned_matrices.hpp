#pragma once
// The matrices of a planned model under the rule muon (R28).

#include <cstdint>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "verification/tools/plan/plan.hpp"

namespace zeroproof::verification {

/// [num_tensors]. Without PlanSettings::adamw, tensors whose names contain one of embed, head, wte, wpe are left to
/// adamw.
/// Errors   ErrorCode::config: a glob of adamw that matches no tensor of two dimensions.
std::vector<MatrixTensor> planned_matrix_tensors(const PlanSettings& settings,
                                                 const PlannedModel& model);

/// Figures of every rank that shares a state, one entry in stage 0; empty for a rule without matrices. layout: of a
/// TP rank; the ranks of TP rank 0 are planned.
std::vector<MatrixUse> planned_matrices(const PlanSettings& settings, const PlannedModel& model,
                                        const FlatLayout& layout, int stage);

/// Largest share of elements that Megatron-LM's layer-wise optimizer gives a rank, over the mean
/// (megatron/core/optimizer/layer_wise_optimizer.py, _NUMEL_EPSILON).
inline constexpr double megatron_numel_cap = 1.3;

MatrixBalance balance_of(const PlanSettings& settings, const PlannedModel& model,
                         const std::vector<MatrixUse>& uses, int stage);

}  // namespace zeroproof::verification
