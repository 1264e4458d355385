// All work after the norm in one pass: G, master and state are read once; master, state and
// parameter are written once.

#include "cuda/device/step/param_cast.cuh"
#include "cuda/device/step/rule_state.cuh"
#include "cuda/device/step/step_gradient.cuh"
#include "cuda/device/step/step_passes.hpp"

namespace zeroproof::cuda::device {

namespace {

template <RuleForm form, class Cast>
struct FusedUpdate {
  StepMemory memory;
  GradientChain chain;
  RuleState<form> state;
  Cast cast;
  std::int64_t begin = 0;  // of the piece

  ZP_DEVICE bool starts() const { return memory.state->halt == 0U && memory.found->skipped == 0U; }

  ZP_DEVICE bool enter(const StepPiece& piece) {
    if (!has_gradient(memory, piece.tensor)) return false;
    begin = piece.local_begin;
    state.scalars = scalars_of<form>(memory, piece);
    chain.inv_scale = state.scalars.inv_scale;
    chain.clip_coef = clip_coef_of(memory, piece);
    cast.enter(memory, piece);
    return true;
  }

  ZP_DEVICE void one(int i) const {
    const float master = state.one(begin + i, chain(memory.grad[begin + i]));
    cast.one(begin + i, i, master);
  }

  ZP_DEVICE void pack(int i) const {
    Pack<float> g = load_pack(memory.grad + begin + i);
    ZP_UNROLL
    for (int k = 0; k < step_pack_numel; ++k) g.v[k] = chain(g.v[k]);
    cast.pack(begin + i, i, state.pack(begin + i, g));
  }
};

}  // namespace

void enqueue_fused_update(const StepMemory& memory, const StepRules& rules) {
  const GradientChain chain{1.0F, 1.0F, clip_limit(rules.hyper), sign_mask(rules.hyper)};
  visit_rule(rules.hyper, [&](auto tag) {
    constexpr RuleForm form = decltype(tag)::form;
    const RuleBuffers buffers = rule_buffers(memory, form);
    const auto run = [&](auto cast) {
      run_pass(FusedUpdate<form, decltype(cast)>{memory, chain, {buffers}, cast}, memory,
               cast.phase(with_buffers(PackPhase().with(memory.grad), buffers)));
    };
    if (has_scales(rules.param_dtype)) return run(ParamCast<ParamKind::none>{});
    visit_param(memory, rules, run);
  });
}

}  // namespace zeroproof::cuda::device
