#pragma once
// One function per header of common/contracts, or for several of one shape: the operations they declare.

#include "verification/ops/op.hpp"

namespace zeroproof::verification {

std::vector<Op> step_scalars_ops();
std::vector<Op> grad_sum_ops();
std::vector<Op> fused_fold_ops();
std::vector<Op> grad_scale_ops();
std::vector<Op> grad_stats_ops();
std::vector<Op> loss_scaler_ops();
std::vector<Op> grad_norm_ops();
std::vector<Op> clip_ops();
std::vector<Op> adam_ops();
std::vector<Op> one_buffer_ops();
std::vector<Op> lamb_ops();
std::vector<Op> muon_ops();
std::vector<Op> norm_form_ops();
std::vector<Op> cast_ops();
std::vector<Op> master_split_ops();
std::vector<Op> scale_recipe_ops();
std::vector<Op> block_scale_ops();
std::vector<Op> binned_sum_ops();
std::vector<Op> dot_ops();
std::vector<Op> lbfgs_ops();
std::vector<Op> elementary_ops();
std::vector<Op> activation_ops();
std::vector<Op> softmax_ops();
std::vector<Op> norm_layer_ops();
std::vector<Op> cross_entropy_ops();
std::vector<Op> dropout_and_weight_ops();
std::vector<Op> fake_quantize_ops();
std::vector<Op> histogram_ops();
std::vector<Op> calibration_ops();
/// The fused passes of production (R17): their contract is that of the phases they combine, which
/// the reference runs.
std::vector<Op> fused_step_ops();

/// Runs `body` and returns whether it refused its arguments: 1 for ErrorCode::invalid_argument,
/// else 0. Other errors are passed on.
std::uint32_t refused(const std::function<void()>& body);

}  // namespace zeroproof::verification
