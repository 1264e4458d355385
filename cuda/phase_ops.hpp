#pragma once
// The elementwise twins the production optimizer calls, as one table: host and device have the same
// signatures.

#include "common/contracts/adam.hpp"
#include "common/contracts/cast.hpp"
#include "common/contracts/clip.hpp"
#include "common/contracts/grad_norm.hpp"
#include "common/contracts/grad_scale.hpp"
#include "common/contracts/grad_sum.hpp"
#include "common/contracts/sgd.hpp"

namespace zeroproof::cuda {

struct PhaseOps {
  WidenBf16Fn* widen_bf16;
  WidenFp16Fn* widen_fp16;
  AddNodesFn* add_nodes;
  UnscaleFn* unscale;
  GradNormAccumulateFn* grad_norm_accumulate;
  GradNormExactAccumulateFn* grad_norm_exact_accumulate;
  GradAbsAccumulateFn* grad_abs_accumulate;
  GradMaxAccumulateFn* grad_max_accumulate;
  ClipFn* clip;
  ClipValueFn* clip_value;
  AdamwUpdateFn* adamw_update;
  AdamUpdateFn* adam_update;
  SgdUpdateFn* sgd_update;
  SgdEmaUpdateFn* sgd_ema_update;
  CastToBf16Fn* cast_to_bf16;
  CastToFp16Fn* cast_to_fp16;
  StochasticCastToBf16Fn* stochastic_cast_to_bf16;
};

const PhaseOps& host_ops();

/// Errors: unavailable if this program has no device code or no device answers.
const PhaseOps& device_ops();

}  // namespace zeroproof::cuda
