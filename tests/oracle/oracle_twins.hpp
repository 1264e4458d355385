#pragma once
// Every implementation the oracle judges, as a table of functions: the reference, and the host twins once for
// each instruction set this processor has.

#include <string>
#include <vector>

#include "cuda/host/adam.hpp"
#include "cuda/host/cast.hpp"
#include "cuda/host/clip.hpp"
#include "cuda/host/grad_norm.hpp"
#include "cuda/host/grad_scale.hpp"
#include "cuda/host/grad_sum.hpp"
#include "cuda/host/isa.hpp"
#include "cuda/host/step_scalars.hpp"
#include "reference/adam.hpp"
#include "reference/cast.hpp"
#include "reference/clip.hpp"
#include "reference/grad_norm.hpp"
#include "reference/grad_scale.hpp"
#include "reference/grad_sum.hpp"
#include "reference/step_scalars.hpp"

namespace zeroproof::oracle {

struct Twin {
  std::string name;
  Exec exec;
  bool is_host;  ///< has the fused passes as well
  UnscaleFn* unscale;
  ClipCoefFn* clip_coef;
  ClipFn* clip;
  AddNodesFn* add_nodes;
  GradSumFn* grad_sum;
  AdamwUpdateFn* adamw_update;
  CastToBf16Fn* cast_to_bf16;
  CastToFp16Fn* cast_to_fp16;
  WidenBf16Fn* widen_bf16;
  WidenFp16Fn* widen_fp16;
  GradNormAccumulateFn* grad_norm_accumulate;
  GradNormNormaliseFn* grad_norm_normalise;
  GradNormFinishFn* grad_norm_finish;
  StepScalarsFn* step_scalars;
};

inline Twin reference_twin() {
  namespace r = reference;
  return {"reference",
          Exec{},
          false,
          r::unscale,
          r::clip_coef,
          r::clip,
          r::add_nodes,
          r::grad_sum,
          r::adamw_update,
          r::cast_to_bf16,
          r::cast_to_fp16,
          r::widen_bf16,
          r::widen_fp16,
          r::grad_norm_accumulate,
          r::grad_norm_normalise,
          r::grad_norm_finish,
          r::step_scalars};
}

inline Twin host_twin(Isa isa) {
  namespace h = cuda::host;
  Exec exec;
  exec.isa = isa;
  return {"host " + std::string(h::name(isa)),
          exec,
          true,
          h::unscale,
          h::clip_coef,
          h::clip,
          h::add_nodes,
          h::grad_sum,
          h::adamw_update,
          h::cast_to_bf16,
          h::cast_to_fp16,
          h::widen_bf16,
          h::widen_fp16,
          h::grad_norm_accumulate,
          h::grad_norm_normalise,
          h::grad_norm_finish,
          h::step_scalars};
}

inline std::vector<Twin> all_twins() {
  std::vector<Twin> twins = {reference_twin()};
  for (Isa isa : cuda::host::supported_isas()) twins.push_back(host_twin(isa));
  return twins;
}

}  // namespace zeroproof::oracle
