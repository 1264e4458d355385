#pragma once
// Rows of the position test: the update rules, phase by phase and fused, with normal and streamed
// stores.

#include "cuda/host/fused_step.hpp"
#include "cuda/host/simd/kernels.hpp"
#include "cuda/host/update_operations.hpp"
#include "tests/cuda/position/position_table.hpp"

namespace zeroproof::tests {

/// Scalars of an ordinary step with decay and a loss scale, written out: only their use is tested
/// here.
inline StepScalars position_scalars() {
  StepScalars s{};
  s.inv_scale = 0x1.8p-5F;
  s.beta1 = 0.9F;
  s.one_minus_beta1 = 0.1F;
  s.beta2 = 0.95F;
  s.one_minus_beta2 = 0.05F;
  s.sqrt_bias_correction2 = 0.378F;
  s.step_size = 1.1e-3F;
  s.eps = 1e-8F;
  s.lr_weight_decay = 3e-5F;
  s.weight_decay = 0.01F;
  s.lr = 3e-3F;
  s.momentum = 0.9F;
  s.one_minus_dampening = 0.75F;
  s.has_decay = 1;
  return s;
}

/// grad, master, exp_avg, exp_avg_sq and, with amsgrad, the maximum.
inline PositionOperation adam_row(std::string name, AdamwUpdateFn* update, AdamOptions options) {
  std::vector<Buffer> buffers = {in, in_out, in_out, in_out};
  if (options.amsgrad) buffers.push_back(in_out);
  return elementwise(std::move(name), buffers, [=](const Call& c) {
    update(c.exec, options, position_scalars(), c.view(0), c.view(1), c.view(2), c.view(3),
           options.amsgrad ? c.view(4) : Span<float>{});
  });
}

inline PositionOperation sgd_row(std::string name, SgdOptions options, bool is_first = false) {
  std::vector<Buffer> buffers = {in, in_out};
  if (options.momentum) buffers.push_back(in_out);
  return elementwise(std::move(name), buffers, [=](const Call& c) {
    StepScalars scalars = position_scalars();
    scalars.is_first = is_first ? 1 : 0;
    cuda::host::sgd_update(c.exec, options, scalars, c.view(0), c.view(1),
                           options.momentum ? c.view(2) : Span<float>{});
  });
}

/// Both norms of lamb, over grad, master, exp_avg and exp_avg_sq.
template <class AddNorms>
PositionOperation trust_norms_row(std::string name, AddNorms add_norms) {
  return {std::move(name), false, {in, in, in, in}, [=](const Call& c) {
            TrustNorms norms;
            add_norms(c, norms);
            Numbers numbers = numbers_of(norms.weight);
            const Numbers update = numbers_of(norms.update);
            numbers.insert(numbers.end(), update.begin(), update.end());
            return numbers;
          }};
}

inline std::vector<PositionOperation> update_operations() {
  namespace h = cuda::host;
  return {
      adam_row("adamw_update", h::adamw_update, {}),
      adam_row("adamw_update amsgrad", h::adamw_update, {true, true}),
      adam_row("adam_update", h::adam_update, {false, true}),
      adam_row("adam_update amsgrad", h::adam_update, {true, false}),
      sgd_row("sgd_update", {}),
      sgd_row("sgd_update momentum", {true, false, true}),
      sgd_row("sgd_update momentum first", {true, false, false}, true),
      sgd_row("sgd_update nesterov", {true, true, false}),
      sgd_row("sgd_update nesterov first", {true, true, true}, true),
      elementwise("sgd_ema_update", {in, in_out, in_out},
                  [](const Call& c) {
                    h::sgd_ema_update(c.exec, {true}, position_scalars(), c.view(0), c.view(1),
                                      c.view(2));
                  }),
      elementwise("lion_update", {in, in_out, in_out},
                  [](const Call& c) {
                    h::lion_update(c.exec, {true}, position_scalars(), c.view(0), c.view(1),
                                   c.view(2));
                  }),
      elementwise("lamb_update", {in, in_out, in_out, in_out},
                  [](const Call& c) {
                    h::lamb_update(c.exec, {true}, position_scalars(), 0.3F, c.view(0), c.view(1),
                                   c.view(2), c.view(3));
                  }),
      elementwise("muon_momentum", {in, in_out, out},
                  [](const Call& c) {
                    h::muon_momentum(c.exec, {true, true}, position_scalars(), c.view(0), c.view(1),
                                     c.view(2));
                  }),
      elementwise("muon_update", {in, in_out},
                  [](const Call& c) {
                    h::muon_update(c.exec, position_scalars(), 0.3F, c.view(0), c.view(1));
                  }),
      trust_norms_row("lamb_norms",
                      [](const Call& c, TrustNorms& norms) {
                        h::lamb_norms(c.exec, {true}, position_scalars(), c.view(0), c.view(1),
                                      c.view(2), c.view(3), norms);
                      }),
      trust_norms_row("fused_lamb_norms",
                      [](const Call& c, TrustNorms& norms) {
                        h::fused_lamb_norms(c.exec, {.clip_value = 0.25F}, position_scalars(),
                                            0.37F, {c.view(0).data(), DType::fp32},
                                            {c.view(1), c.view(2), c.view(3)}, norms);
                      }),
  };
}

/// The states of a rule in the order of the buffers; the parameters are the last buffer.
inline int num_states(const cuda::host::FusedOptions& options) {
  if (options.rule == UpdateRule::sgd) return options.momentum ? 2 : 1;
  if (!traits_of(options.rule).keeps[StateSlot::exp_avg_sq]) return 2;
  return options.amsgrad ? 4 : 3;
}

inline std::vector<Buffer> fused_buffers(const cuda::host::FusedOptions& options, DType dtype) {
  std::vector<Buffer> buffers = {in};
  buffers.insert(buffers.end(), static_cast<std::size_t>(num_states(options)), in_out);
  buffers.push_back(out_of(dtype));
  return buffers;
}

inline PositionOperation fused_row(std::string name, const cuda::host::FusedOptions& given,
                                   DType dtype) {
  return elementwise("fused_update " + std::move(name), fused_buffers(given, dtype),
                     [given](const Call& c) {
                       cuda::host::FusedOptions options = given;
                       if (options.draw) options.draw->first_index += c.first;
                       cuda::host::FusedState state{.master = c.view(1)};
                       const int states = num_states(options);
                       if (options.rule == UpdateRule::sgd) {
                         if (states > 1) state.slots[StateSlot::momentum_buffer] = c.view(2);
                       } else {
                         state.slots[StateSlot::exp_avg] = c.view(2);
                         if (states > 2) state.slots[StateSlot::exp_avg_sq] = c.view(3);
                         if (states > 3) state.slots[StateSlot::max_exp_avg_sq] = c.view(4);
                       }
                       cuda::host::fused_update(c.exec, options, position_scalars(), 0.37F,
                                                c.view(0), state, c.views.back());
                     });
}

/// Streamed stores start at a multiple of a cache line, so this kernel depends on addresses. The
/// operation streams from 16 MiB of parameters on; here the kernel is called directly.
inline PositionOperation streamed_row(std::string name, cuda::host::ParamKind kind, DType dtype) {
  return elementwise(
      "fused_update streamed " + std::move(name), fused_buffers({}, dtype), [=](const Call& c) {
        StepScalars still =
            position_scalars();  // weights are unchanged, among them the ties of bf16
        still.step_size = 0;
        still.has_decay = 0;
        const cuda::host::GradientChain chain{.unscale = still.inv_scale, .clip_coef = 0.37F};
        const cuda::host::GradStretch grad{c.view(0).data(), DType::fp32};
        const cuda::host::UpdateBuffers buffers{.master = c.view(1).data(),
                                                .slots = {c.view(2).data(), c.view(3).data()}};
        const cuda::host::ParamTarget target{c.views.back().data, kind, true, {9, 4, c.first}};
        cuda::host::simd_kernels(c.exec.isa)
            .fused_update({}, chain, still, grad, buffers, target, c.numel());
      });
}

inline std::vector<PositionOperation> fused_operations() {
  using cuda::host::ParamKind;
  constexpr RoundingDraw draw{9, 4, 5};
  return {
      fused_row("adamw fp32", {}, DType::fp32),
      fused_row("adamw bf16", {}, DType::bf16),
      fused_row("adamw fp16", {.maximize = true}, DType::fp16),
      fused_row("adamw drawn", {.amsgrad = true, .clip_value = 0.25F, .draw = draw}, DType::bf16),
      fused_row("adam fp16", {.rule = UpdateRule::adam, .clip_value = 0.25F}, DType::fp16),
      fused_row("adam amsgrad", {.rule = UpdateRule::adam, .amsgrad = true}, DType::fp32),
      fused_row("sgd fp32", {.rule = UpdateRule::sgd}, DType::fp32),
      fused_row("sgd momentum", {.rule = UpdateRule::sgd, .maximize = true, .momentum = true},
                DType::fp16),
      fused_row("sgd drawn",
                {.rule = UpdateRule::sgd, .momentum = true, .nesterov = true, .draw = draw},
                DType::bf16),
      fused_row("sgd_ema bf16", {.rule = UpdateRule::sgd_ema, .clip_value = 0.25F}, DType::bf16),
      fused_row("lion fp16", {.rule = UpdateRule::lion, .clip_value = 0.25F}, DType::fp16),
      fused_row("lamb bf16", {.rule = UpdateRule::lamb, .clip_value = 0.25F, .trust_ratio = 0.3F},
                DType::bf16),
      streamed_row("fp32", ParamKind::fp32, DType::fp32),
      streamed_row("bf16", ParamKind::bf16, DType::bf16),
      streamed_row("fp16", ParamKind::fp16, DType::fp16),
      streamed_row("drawn", ParamKind::stochastic_bf16, DType::bf16),
  };
}

}  // namespace zeroproof::tests
