#include "cuda/host/fused_step.hpp"

#include <algorithm>
#include <array>

#include "common/step/state_buffers.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "reference/update_operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/limb_words.hpp"
#include "verification/ops/operations/update_settings.hpp"

namespace zeroproof::verification {
namespace {

using cuda::host::FusedOptions;

struct Form {
  const char* name;
  UpdateRule rule;
  bool amsgrad = false, maximize = false, momentum = false, nesterov = false;
  std::optional<float> clip_value = {};
};

constexpr std::array<Form, 9> forms = {
    {{"adamw", UpdateRule::adamw},
     {"adamw amsgrad maximize", UpdateRule::adamw, true, true},
     {"adam clipped by value", UpdateRule::adam, false, false, false, false,
      5e-4F},  // some of fill training
     {"sgd", UpdateRule::sgd},
     {"sgd momentum", UpdateRule::sgd, false, false, true},
     {"sgd nesterov maximize", UpdateRule::sgd, false, true, true, true},
     {"sgd_ema", UpdateRule::sgd_ema},
     {"lion maximize", UpdateRule::lion, false, true},
     {"lamb clipped by value", UpdateRule::lamb, false, false, false, false, 5e-4F}}};
constexpr float fused_ratio = 0.37F;

/// Destination of the parameters. Streamed stores are forced on and off, because no test reaches
/// the size at which they begin.
enum class Target : std::uint8_t { bf16, bf16_streamed, fp16, fp32, bf16_drawn };
constexpr std::array<const char*, 5> targets = {"bf16", "bf16 streamed", "fp16", "fp32",
                                                "bf16 drawn"};
constexpr RoundingDraw rounding_draw{0xFEDCBA9876543210U, 0x100000007U, 4097};

constexpr std::array<float, 3> inv_scales = {1.0F, 0.37F, 0x1p-12F};

/// One of the forms with one of the targets and one of the sets of scalars, in turn.
struct Setting {
  explicit Setting(int variant)
      : form(forms[static_cast<std::size_t>(variant) / targets.size()]),
        target(static_cast<Target>(static_cast<std::size_t>(variant) % targets.size())),
        hyper(hyper_of(form)),
        scalars(update_settings(variant % 3, hyper).scalars),
        clip_coef(variant % 2 == 0 ? 0.37F : 1.0F) {
    scalars.inv_scale = inv_scales[static_cast<std::size_t>(variant) % inv_scales.size()];
  }

  static OptimizerHyper hyper_of(const Form& form) {
    OptimizerHyper hyper;
    hyper.rule = form.rule;
    hyper.amsgrad = form.amsgrad;
    hyper.maximize = form.maximize;
    // only whether momentum is used: its value is in the scalars
    hyper.momentum = form.momentum ? 0.9 : 0.0;
    hyper.nesterov = form.nesterov;
    return hyper;
  }

  const Form& form;
  Target target;
  OptimizerHyper hyper;
  StepScalars scalars;
  float clip_coef;
};

/// The operands of the slots that a setting keeps.
PerSlot<Span<float>> kept_operands(OpCall& call, const Setting& s) {
  return per_slot([&](StateSlot slot) {
    return keeps(s.hyper, slot) ? call.get<float>(2 + static_cast<std::size_t>(slot))
                                : Span<float>{};
  });
}

void update_phase(OpCall& call, const Setting& s, Span<const float> grad) {
  const Span<float> master = call.get<float>(1);
  reference::update_by_rule(s.hyper, s.scalars, fused_ratio, grad, master, kept_operands(call, s));
}

void cast_phase(OpCall& call, Target target) {
  const Span<const float> master = call.in<float>(1);
  if (target == Target::bf16_drawn) {
    reference::stochastic_cast_to_bf16({}, rounding_draw, master, call.get<bf16>(7));
  } else if (target == Target::fp16) {
    reference::cast_to_fp16({}, master, call.get<fp16>(8));
  } else if (target == Target::fp32) {
    std::copy(master.begin(), master.end(), call.get<float>(6).begin());
  } else {
    reference::cast_to_bf16({}, master, call.get<bf16>(7));
  }
}

void run_phases(OpCall& call) {
  const Setting s(call.variant());
  std::vector<float> grad(call.numel());
  reference::unscale({}, s.scalars.inv_scale, call.in<float>(0), grad);
  std::vector<float> clipped(grad.size());
  reference::clip({}, s.clip_coef, grad, clipped);
  if (s.form.clip_value) reference::clip_value({}, *s.form.clip_value, clipped);
  update_phase(call, s, clipped);
  cast_phase(call, s.target);
}

void run_fused(OpCall& call) {
  const Setting s(call.variant());
  FusedOptions options;
  options.rule = s.form.rule;
  options.amsgrad = s.form.amsgrad;
  options.maximize = s.form.maximize;
  options.momentum = s.form.momentum;
  options.nesterov = s.form.nesterov;
  options.clip_value = s.form.clip_value;
  options.trust_ratio = fused_ratio;
  options.stream = s.target == Target::bf16_streamed;
  if (s.target == Target::bf16_drawn) options.draw = rounding_draw;
  const cuda::host::FusedState state{call.get<float>(1), kept_operands(call, s)};
  const std::size_t param = s.target == Target::fp32 ? 6 : s.target == Target::fp16 ? 8 : 7;
  cuda::host::fused_update(call.exec, options, s.scalars, s.clip_coef, call.in<float>(0), state,
                           call.view(param));
}

Op fused_update_op() {
  Op op;
  op.name = "fused_update";
  op.phases = {Phase::update};
  for (const Form& form : forms) {
    for (const char* target : targets)
      op.variants.push_back(std::string(form.name) + " to " + target);
  }
  op.operands = {input("grad_sum"),
                 in_place("master", Content::weight),
                 in_place("exp_avg", Content::moment),
                 in_place("exp_avg_sq", Content::second_moment),
                 in_place("max_exp_avg_sq", Content::second_moment),
                 in_place("momentum_buffer", Content::moment),
                 output("param_fp32"),
                 output("param_bf16", DType::bf16),
                 output("param_fp16", DType::fp16)};
  op.fills = number_fills();
  op.largest = 4101;
  op.reference = run_phases;
  op.host = run_fused;
  return op;
}

/// Whether the operation of the norms of LAMB clips by value; it always ascends.
std::optional<float> limit_of_norms(int variant) {
  return variant == 0 ? std::nullopt : std::optional<float>(5e-4F);
}

using LambNorms = void (*)(OpCall& call, const StepScalars& scalars, TrustNorms& norms);

OpFunction run_fused_norms(LambNorms implementation) {
  return [implementation](OpCall& call) {
    OptimizerHyper hyper;
    hyper.rule = UpdateRule::lamb;
    StepScalars scalars = update_settings(call.variant() * 2, hyper).scalars;
    scalars.inv_scale = 0.37F;
    TrustNorms norms;
    implementation(call, scalars, norms);
    reference::grad_norm_normalise(norms.weight);
    reference::grad_norm_normalise(norms.update);
    put_limbs(norms.weight, call.get<std::uint64_t>(4).first(limb_words));
    put_limbs(norms.update, call.get<std::uint64_t>(4).subspan(limb_words));
  };
}

void norms_in_phases(OpCall& call, const StepScalars& scalars, TrustNorms& norms) {
  std::vector<float> grad(call.numel());
  reference::unscale({}, scalars.inv_scale, call.in<float>(0), grad);
  reference::clip({}, 0.9999F, grad, grad);
  if (const auto limit = limit_of_norms(call.variant())) reference::clip_value({}, *limit, grad);
  reference::lamb_norms({}, {true}, scalars, grad, call.in<float>(1), call.in<float>(2),
                        call.in<float>(3), norms);
}

void norms_fused(OpCall& call, const StepScalars& scalars, TrustNorms& norms) {
  FusedOptions options;
  options.rule = UpdateRule::lamb;
  options.maximize = true;
  options.clip_value = limit_of_norms(call.variant());
  const cuda::host::GradStretch grad{call.view(0).data, DType::fp32};
  cuda::host::fused_lamb_norms(call.exec, options, scalars, 0.9999F, grad,
                               {call.get<float>(1), call.get<float>(2), call.get<float>(3)}, norms);
}

Op fused_lamb_norms_op() {
  Op op;
  op.name = "fused_lamb_norms";
  op.phases = {Phase::update};
  op.exactness = Exactness::integer;
  op.variants = {"typical", "strong, clipped by value"};
  op.operands = {input("grad_sum"), input("master", Content::weight),
                 input("exp_avg", Content::moment), input("exp_avg_sq", Content::second_moment),
                 fixed(output("norms", DType::u64), 2 * limb_words)};
  op.fills = number_fills();
  op.largest = 8209;
  op.reference = run_fused_norms(norms_in_phases);
  op.host = run_fused_norms(norms_fused);
  return op;
}

/// found_inf plus 1, so that "none" is not the value of unwritten memory, and the words of the
/// norm: limbs, or amax.
using FoundAndNorm = void (*)(OpCall& call, float inv_scale, std::uint32_t& found, NormLimbs& limbs,
                              std::uint32_t& amax);

OpFunction run_pass(FoundAndNorm pass) {
  return [pass](OpCall& call) {
    std::uint32_t found = 0;
    std::uint32_t amax = 0;
    NormLimbs limbs;
    pass(call, inv_scales[call.variant()], found, limbs, amax);
    call.get<std::uint32_t>(1)[0] = 1 + found;
    put_limbs(limbs, call.get<std::uint64_t>(2));
    call.get<std::uint32_t>(3)[0] = amax;
  };
}

std::vector<float> unscaled(OpCall& call, float inv_scale, bool& found_inf) {
  std::vector<float> grad(call.numel());
  found_inf = reference::unscale({}, inv_scale, call.in<float>(0), grad);
  return grad;
}

void unscale_and_find(OpCall& call, float inv_scale, std::uint32_t& found, NormLimbs&,
                      std::uint32_t&) {
  bool found_inf = false;
  unscaled(call, inv_scale, found_inf);
  found = found_inf ? 1 : 0;
}

/// The phases unscale and norm, with one of the forms.
template <GradNormAccumulateFn* accumulate>
void unscale_and_norm(OpCall& call, float inv_scale, std::uint32_t&, NormLimbs& limbs,
                      std::uint32_t&) {
  bool found_inf = false;
  accumulate({}, unscaled(call, inv_scale, found_inf), limbs);
  reference::grad_norm_normalise(limbs);
}

void unscale_find_and_norm(OpCall& call, float inv_scale, std::uint32_t& found, NormLimbs& limbs,
                           std::uint32_t& amax) {
  unscale_and_find(call, inv_scale, found, limbs, amax);
  unscale_and_norm<reference::grad_norm_accumulate>(call, inv_scale, found, limbs, amax);
}

void unscale_and_max(OpCall& call, float inv_scale, std::uint32_t&, NormLimbs&,
                     std::uint32_t& amax) {
  bool found_inf = false;
  reference::grad_max_accumulate({}, unscaled(call, inv_scale, found_inf), amax);
}

void fused_finite_and_norm(OpCall& call, float inv_scale, std::uint32_t& found, NormLimbs& limbs,
                           std::uint32_t&) {
  found = cuda::host::fused_finite_and_norm(call.exec, inv_scale, call.in<float>(0), limbs) ? 1 : 0;
  cuda::host::grad_norm_normalise(limbs);
}
void fused_finite(OpCall& call, float inv_scale, std::uint32_t& found, NormLimbs&, std::uint32_t&) {
  found = cuda::host::fused_finite(call.exec, inv_scale, call.in<float>(0)) ? 1 : 0;
}
void fused_norm_exact(OpCall& call, float inv_scale, std::uint32_t&, NormLimbs& limbs,
                      std::uint32_t&) {
  cuda::host::fused_norm_exact(call.exec, inv_scale, call.in<float>(0), limbs);
  cuda::host::grad_norm_normalise(limbs);
}
void fused_norm_abs(OpCall& call, float inv_scale, std::uint32_t&, NormLimbs& limbs,
                    std::uint32_t&) {
  cuda::host::fused_norm_abs(call.exec, inv_scale, call.in<float>(0), limbs);
  cuda::host::grad_norm_normalise(limbs);
}
void fused_norm_max(OpCall& call, float inv_scale, std::uint32_t&, NormLimbs&,
                    std::uint32_t& amax) {
  cuda::host::fused_norm_max(call.exec, inv_scale, call.in<float>(0), amax);
}

Op pass_op(std::string name, Phase phase, Exactness exactness, FoundAndNorm reference,
           FoundAndNorm host) {
  Op op;
  op.name = std::move(name);
  op.phases = {phase};
  op.exactness = exactness;
  op.variants = {"inv_scale 1", "inv_scale 0.37", "inv_scale 2^-12"};
  op.operands = {input("grad_sum"), fixed(output("found_inf_plus_1", DType::u32), 1),
                 fixed(output("limbs", DType::u64), limb_words),
                 fixed(output("amax", DType::u32), 1)};
  op.fills = number_fills();
  op.reference = run_pass(reference);
  op.host = run_pass(host);
  return op;
}

}  // namespace

std::vector<Op> fused_step_ops() {
  return {
      pass_op("fused_finite_and_norm", Phase::unscale, Exactness::ordered, unscale_find_and_norm,
              fused_finite_and_norm),
      pass_op("fused_finite", Phase::unscale, Exactness::bitwise, unscale_and_find, fused_finite),
      pass_op("fused_norm_exact", Phase::norm, Exactness::integer,
              unscale_and_norm<reference::grad_norm_exact_accumulate>, fused_norm_exact),
      pass_op("fused_norm_abs", Phase::norm, Exactness::integer,
              unscale_and_norm<reference::grad_abs_accumulate>, fused_norm_abs),
      pass_op("fused_norm_max", Phase::norm, Exactness::integer, unscale_and_max, fused_norm_max),
      fused_lamb_norms_op(),
      fused_update_op()};
}

}  // namespace zeroproof::verification
