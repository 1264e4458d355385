// The phases that process every element, as separate passes (R6): unscale, clip, update, cast.
// fused_update.cu combines them.

#include "cuda/device/step/nonfinite_flag.cuh"
#include "cuda/device/step/param_cast.cuh"
#include "cuda/device/step/rule_state.cuh"
#include "cuda/device/step/step_gradient.cuh"
#include "cuda/device/step/step_passes.hpp"

namespace zeroproof::cuda::device {

namespace {

/// Common part: no work after a halt.
struct Phase {
  StepMemory memory;
  std::int64_t begin = 0;  // of the piece

  ZP_DEVICE bool starts() const { return memory.state->halt == 0U; }
};

/// In place: grad = f(grad).
template <class F>
ZP_DEVICE void change_one(float* grad, F&& f) {
  *grad = f(*grad);
}

template <class F>
ZP_DEVICE void change_pack(float* grad, F&& f) {
  Pack<float> g = load_pack(grad);
  ZP_UNROLL
  for (int k = 0; k < step_pack_numel; ++k) g.v[k] = f(g.v[k]);
  store_pack(grad, g);
}

struct Unscale : Phase {
  Unscaling unscaling;

  ZP_DEVICE bool enter(const StepPiece& piece) {
    begin = piece.local_begin;
    unscaling.inv_scale = memory.scalars[set_of(memory, piece)].inv_scale;
    return true;
  }
  ZP_DEVICE void one(int i) { change_one(memory.grad + begin + i, unscaling); }
  ZP_DEVICE void pack(int i) { change_pack(memory.grad + begin + i, unscaling); }
  ZP_DEVICE void finish() const { unscaling.finish(memory.found); }
};

struct Clip : Phase {
  float limit;
  float clip_coef = 1.0F;

  ZP_DEVICE bool enter(const StepPiece& piece) {
    begin = piece.local_begin;
    clip_coef = clip_coef_of(memory, piece);
    return true;
  }
  ZP_DEVICE float clipped(float g) const {
    const float scaled = g * clip_coef;
    return clipped_value(scaled, limit);
  }
  ZP_DEVICE void one(int i) const {
    change_one(memory.grad + begin + i, [this](float g) { return clipped(g); });
  }
  ZP_DEVICE void pack(int i) const {
    change_pack(memory.grad + begin + i, [this](float g) { return clipped(g); });
  }
};

template <RuleForm form>
struct Update : Phase {
  std::uint32_t sign;
  RuleState<form> state;

  ZP_DEVICE bool enter(const StepPiece& piece) {
    if (!has_gradient(memory, piece.tensor)) return false;
    begin = piece.local_begin;
    state.scalars = scalars_of<form>(memory, piece);
    return true;
  }
  ZP_DEVICE void one(int i) const { state.one(begin + i, flip_sign(memory.grad[begin + i], sign)); }
  ZP_DEVICE void pack(int i) const {
    Pack<float> g = load_pack(memory.grad + begin + i);
    ZP_UNROLL
    for (int k = 0; k < step_pack_numel; ++k) g.v[k] = flip_sign(g.v[k], sign);
    state.pack(begin + i, g);
  }
};

template <class Cast>
struct CastMaster : Phase {
  Cast cast;

  ZP_DEVICE bool enter(const StepPiece& piece) {
    begin = piece.local_begin;
    cast.enter(memory, piece);
    return true;
  }
  ZP_DEVICE void one(int i) const { cast.one(begin + i, i, memory.master[begin + i]); }
  ZP_DEVICE void pack(int i) const {
    cast.pack(begin + i, i, load_pack(memory.master + begin + i));
  }
};

}  // namespace

void enqueue_unscale(const StepMemory& memory) {
  run_pass(Unscale{{memory}, {}}, memory, PackPhase().with(memory.grad));
}

void enqueue_clip(const StepMemory& memory, const StepRules& rules) {
  run_pass(Clip{{memory}, clip_limit(rules.hyper)}, memory, PackPhase().with(memory.grad));
}

void enqueue_update(const StepMemory& memory, const StepRules& rules) {
  visit_rule(rules.hyper, [&](auto tag) {
    constexpr RuleForm form = decltype(tag)::form;
    const RuleBuffers buffers = rule_buffers(memory, form);
    run_pass(Update<form>{{memory}, sign_mask(rules.hyper), {buffers}}, memory,
             with_buffers(PackPhase().with(memory.grad), buffers));
  });
}

void enqueue_cast(const StepMemory& memory, const StepRules& rules) {
  visit_param(memory, rules, [&](auto cast) {
    run_pass(CastMaster<decltype(cast)>{{memory}, cast}, memory,
             cast.phase(PackPhase().with(memory.master)));
  });
}

}  // namespace zeroproof::cuda::device
