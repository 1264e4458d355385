// The update rules of R6. One loop per rule and combination of options; the gradient passes through the same chain in
// all of them.

#include <cmath>

#include "cuda/host/simd/variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {
namespace {

/// Not PerSlot's functions: compiled for this instruction set, they could be linked into other code.
inline float* buffer_of(const UpdateBuffers& at, StateSlot slot) {
  return at.slots.values[static_cast<int>(slot)];
}

/// unscale, clip, clip by value, maximize.
inline float apply_chain(const GradientChain& chain, float grad) {
  const float g1 = grad * chain.unscale;
  const float g = g1 * chain.clip_coef;
  const float low = g < -chain.clip_limit ? -chain.clip_limit : g;
  const float clipped = g > chain.clip_limit ? chain.clip_limit : low;
  return float_of(bits_of(clipped) ^ chain.sign_flip);
}

enum class Decay { none, coupled, decoupled };

constexpr Decay coupled_if(bool decay) { return decay ? Decay::coupled : Decay::none; }

template <Decay decay>
inline float with_decay(const StepScalars& c, float g, float p) {
  if (decay != Decay::coupled) return g;
  const float w = c.weight_decay * p;
  return g + w;
}

inline float moving_average(float beta, float rest, float old, float value) {
  const float a1 = beta * old;
  const float a2 = rest * value;
  return a1 + a2;
}

/// u of adamw from the new moments; x: the second one, or its maximum.
template <Decay decay>
inline float adam_update(const StepScalars& c, float m, float x, float p) {
  const float s = std::sqrt(x);
  const float r = s / c.sqrt_bias_correction2;
  const float d = r + c.eps;
  const float q = m / d;
  const float a = c.step_size * q;
  if (decay != Decay::decoupled) return a;
  const float w = c.lr_weight_decay * p;
  return a + w;
}

template <Decay decay, bool amsgrad, bool scaled = false>
void adam_loop(const UpdateForm& form, const GradientChain& shared_chain,
               const StepScalars& scalars, const UpdateBuffers& at, std::int64_t numel) {
  const float trust_ratio = form.trust_ratio;
  const GradientChain chain =
      shared_chain;  // copies, which cannot alias a store through a float pointer
  const StepScalars c = scalars;
  const float* grad = at.grad;
  float *master = at.master, *exp_avg = buffer_of(at, StateSlot::exp_avg);
  float* exp_avg_sq = buffer_of(at, StateSlot::exp_avg_sq);
  float* max_exp_avg_sq = buffer_of(at, StateSlot::max_exp_avg_sq);
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) {
    const float p = master[i];
    const float g = with_decay<decay>(c, apply_chain(chain, grad[i]), p);
    const float m = moving_average(c.beta1, c.one_minus_beta1, exp_avg[i], g);
    const float h = g * g;
    const float v = moving_average(c.beta2, c.one_minus_beta2, exp_avg_sq[i], h);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    float x = v;
    if (amsgrad) {
      const float most = max_exp_avg_sq[i];
      x = most >= v ? most : v;
      max_exp_avg_sq[i] = x;
    }
    float u = adam_update<decay>(c, m, x, p);
    if (scaled) u = trust_ratio * u;
    master[i] = p - u;
  }
}

/// The same without a store: the updates of lamb.
template <Decay decay>
void lamb_loop(const GradientChain& shared_chain, const StepScalars& scalars, const float* grad,
               const float* master, const float* exp_avg, const float* exp_avg_sq, float* u,
               std::int64_t numel) {
  const GradientChain chain = shared_chain;
  const StepScalars c = scalars;
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) {
    const float g = apply_chain(chain, grad[i]);
    const float m = moving_average(c.beta1, c.one_minus_beta1, exp_avg[i], g);
    const float h = g * g;
    const float v = moving_average(c.beta2, c.one_minus_beta2, exp_avg_sq[i], h);
    u[i] = adam_update<decay>(c, m, v, master[i]);
  }
}

enum class Momentum { none, first, running };

template <bool decay, Momentum momentum, bool nesterov>
void sgd_loop(const UpdateForm& /*form*/, const GradientChain& shared_chain,
              const StepScalars& scalars, const UpdateBuffers& at, std::int64_t numel) {
  const GradientChain chain = shared_chain;
  const StepScalars c = scalars;
  const float* grad = at.grad;
  float *master = at.master, *momentum_buffer = buffer_of(at, StateSlot::momentum_buffer);
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) {
    const float p = master[i];
    const float g = with_decay<coupled_if(decay)>(c, apply_chain(chain, grad[i]), p);
    float e = g;
    if (momentum != Momentum::none) {
      float buffer = g;
      if (momentum == Momentum::running) {
        buffer = moving_average(c.momentum, c.one_minus_dampening, momentum_buffer[i], g);
      }
      momentum_buffer[i] = buffer;
      e = buffer;
      if (nesterov) {
        const float h = c.momentum * buffer;
        e = g + h;
      }
    }
    const float s = c.lr * e;
    master[i] = p - s;
  }
}

template <bool decay>
void sgd_ema_loop(const UpdateForm& /*form*/, const GradientChain& shared_chain,
                  const StepScalars& scalars, const UpdateBuffers& at, std::int64_t numel) {
  const GradientChain chain = shared_chain;
  const StepScalars c = scalars;
  const float* grad = at.grad;
  float *master = at.master, *exp_avg = buffer_of(at, StateSlot::exp_avg);
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) {
    const float p = master[i];
    const float g = with_decay<coupled_if(decay)>(c, apply_chain(chain, grad[i]), p);
    const float m = moving_average(c.beta1, c.one_minus_beta1, exp_avg[i], g);
    exp_avg[i] = m;
    const float s = c.lr * m;
    master[i] = p - s;
  }
}

template <bool decay>
void lion_loop(const UpdateForm& /*form*/, const GradientChain& shared_chain,
               const StepScalars& scalars, const UpdateBuffers& at, std::int64_t numel) {
  const GradientChain chain = shared_chain;
  const StepScalars s = scalars;
  const float* grad = at.grad;
  float *master = at.master, *exp_avg = buffer_of(at, StateSlot::exp_avg);
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) {
    const float p = master[i];
    const float g = apply_chain(chain, grad[i]);
    const float before = exp_avg[i];
    const float c = moving_average(s.beta1, s.one_minus_beta1, before, g);
    const float below = c < 0.0F ? -1.0F : c;
    const float e = c > 0.0F ? 1.0F : below;  // zeros and NaN keep their value
    const float a = s.lr * e;
    float u = a;
    if (decay) {
      const float w = s.lr_weight_decay * p;
      u = a + w;
    }
    master[i] = p - u;
    exp_avg[i] = moving_average(s.beta2, s.one_minus_beta2, before, g);
  }
}

using Loop = void(const UpdateForm&, const GradientChain&, const StepScalars&, const UpdateBuffers&,
                  std::int64_t);

template <bool decay>
Loop* sgd_loop_of(const UpdateForm& form, bool first) {
  if (!form.momentum) return sgd_loop<decay, Momentum::none, false>;
  if (first) {
    return form.nesterov ? sgd_loop<decay, Momentum::first, true>
                         : sgd_loop<decay, Momentum::first, false>;
  }
  return form.nesterov ? sgd_loop<decay, Momentum::running, true>
                       : sgd_loop<decay, Momentum::running, false>;
}

template <Decay decay>
Loop* adam_loop_of(bool amsgrad) {
  return amsgrad ? adam_loop<decay, true> : adam_loop<decay, false>;
}

Loop* loop_of(const UpdateForm& form, const StepScalars& scalars) {
  const bool decay = scalars.has_decay != 0;
  switch (form.rule) {
    case UpdateRule::muon:  // of a tensor that is no matrix (R28)
    case UpdateRule::adamw:
      return decay ? adam_loop_of<Decay::decoupled>(form.amsgrad)
                   : adam_loop_of<Decay::none>(form.amsgrad);
    case UpdateRule::adam:
      return decay ? adam_loop_of<Decay::coupled>(form.amsgrad)
                   : adam_loop_of<Decay::none>(form.amsgrad);
    case UpdateRule::sgd:
      return decay ? sgd_loop_of<true>(form, scalars.is_first != 0)
                   : sgd_loop_of<false>(form, scalars.is_first != 0);
    case UpdateRule::lion:
      return decay ? lion_loop<true> : lion_loop<false>;
    case UpdateRule::lamb:
      return decay ? adam_loop<Decay::decoupled, false, true> : adam_loop<Decay::none, false, true>;
    case UpdateRule::sgd_ema:
      break;
  }
  return decay ? sgd_ema_loop<true> : sgd_ema_loop<false>;
}

/// The state from element `begin` on. Missing buffers stay null.
UpdateBuffers advance(const UpdateBuffers& at, std::int64_t begin) {
  UpdateBuffers from = at;
  from.master += begin;
  for (float*& buffer : from.slots.values) {
    if (buffer != nullptr) buffer += begin;
  }
  return from;
}

void cast_block(const ParamTarget& param, std::int64_t begin, const float* master,
                std::int64_t count) {
  auto* halves = static_cast<std::uint16_t*>(param.data) + begin;
  switch (param.kind) {
    case ParamKind::fp32:
      __builtin_memcpy(static_cast<float*>(param.data) + begin, master,
                       static_cast<std::size_t>(count) * sizeof(float));
      return;
    case ParamKind::bf16:
      return param.stream ? to_bf16_streamed(master, halves, count)
                          : to_bf16(master, halves, count);
    case ParamKind::fp16:
      return to_fp16(master, halves, count);
    case ParamKind::stochastic_bf16: {
      const Draw draw = {param.draw.seed, param.draw.step,
                         param.draw.index + static_cast<std::uint64_t>(begin)};
      return to_bf16_stochastic(draw, master, halves, count);
    }
    case ParamKind::none:
      return;
  }
}

}  // namespace

void update(const UpdateForm& form, const GradientChain& chain, const StepScalars& scalars,
            const UpdateBuffers& buffers, std::int64_t numel) {
  loop_of(form, scalars)(form, chain, scalars, buffers, numel);
}

/// A gradient in a 16-bit type is widened, and the cast reads master, while the block is in the first-level cache.
void fused_update(const UpdateForm& form, const GradientChain& chain, const StepScalars& scalars,
                  const GradStretch& grad, const UpdateBuffers& buffers, const ParamTarget& param,
                  std::int64_t numel) {
  constexpr std::int64_t block = 1024;
  Loop* const loop = loop_of(form, scalars);
  float wide[block];
  for (std::int64_t begin = 0; begin < numel; begin += block) {
    const std::int64_t count = numel - begin < block ? numel - begin : block;
    UpdateBuffers here = advance(buffers, begin);
    here.grad = values_from(grad, begin, count, wide);
    loop(form, chain, scalars, here, count);
    cast_block(param, begin, buffers.master + begin, count);
  }
#if defined(__AVX512F__)
  if (param.stream) _mm_sfence();  // streamed stores need an explicit fence
#endif
}

void lamb_updates(const GradientChain& chain, const StepScalars& scalars, const GradStretch& grad,
                  const float* master, const float* exp_avg, const float* exp_avg_sq, float* u,
                  std::int64_t numel) {
  constexpr std::int64_t block = 1024;
  const auto loop = scalars.has_decay != 0 ? lamb_loop<Decay::decoupled> : lamb_loop<Decay::none>;
  float wide[block];
  for (std::int64_t begin = 0; begin < numel; begin += block) {
    const std::int64_t count = numel - begin < block ? numel - begin : block;
    loop(chain, scalars, values_from(grad, begin, count, wide), master + begin, exp_avg + begin,
         exp_avg_sq + begin, u + begin, count);
  }
}

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
