// Faults of everything that is not an element: scalars, flags, counters, norm, loss scaler.

#include <algorithm>
#include <cmath>

#include "cuda/faults/saboteur.hpp"
#include "cuda/host/grad_norm.hpp"
#include "cuda/host/loss_scaler.hpp"
#include "cuda/host/step_scalars.hpp"
#include "cuda/micro_batches.hpp"
#include "cuda/production_optimizer.hpp"

namespace zeroproof::cuda {

void Saboteur::recompute_scalars(std::int64_t divisor, bool one_counter) {
  TensorSteps& steps = victim_.steps_;
  for (std::size_t i = 0; i < steps.scalars_.size(); ++i) {
    const std::uint64_t applied =
        steps.per_tensor() && !one_counter ? steps.tensor_steps_[i] : steps.applied_steps_;
    const OptimizerSetup& setup = victim_.setup_;
    const int group =
        steps.per_tensor() ? setup.groups.of(static_cast<std::int64_t>(i)) : static_cast<int>(i);
    const OptimizerHyper hyper =
        hyper_of(setup.groups, setup.hyper, group, static_cast<std::int64_t>(steps.applied_steps_) + 1,
                 setup.micro_batches);
    steps.scalars_[i] = host::step_scalars(hyper, static_cast<std::int64_t>(applied) + 1,
                                           victim_.scaler_.log2_scale, divisor);
  }
}

void Saboteur::after_prepare(const LeafSource& leaves) {
  TensorSteps& steps = victim_.steps_;
  const OptimizerSetup& setup = victim_.setup_;
  if (is("found-inf-not-cleared")) victim_.found_inf_ = found_inf_;
  if (is("Z60-sum-instead-of-mean")) recompute_scalars(1, false);
  if (is("Z25-one-counter-for-all")) recompute_scalars(setup.micro_batches, true);
  if (is("Z62-mean-of-means")) {
    std::int64_t own = 0;
    for (const std::int64_t j : own_micro_batches(setup)) own += leaves.num_tokens(j);
    recompute_scalars(own * setup.comm->world_size(), false);
  }
  if (is("cp-in-divisor")) recompute_scalars(setup.micro_batches * setup.cp, false);
  const auto next = static_cast<std::int64_t>(steps.applied_steps_) + 1;
  if (is("schedule-advances-on-skip")) recompute_scheduled(setup.groups, next + skipped_steps_);
  if (is("Z107-first-lr-not-scheduled") && next == 1) {
    ParamGroups groups = setup.groups;
    groups.schedule.warmup = 0;
    groups.schedule.decay = DecayShape::constant;
    recompute_scheduled(groups, next);
  }
  if (is("Z74-zero-instead-of-none")) std::ranges::fill(steps.has_grad_, ~std::uint64_t{0});
  if (is("Z24-power-by-running-product")) {
    float power1 = 1;
    float power2 = 1;
    for (std::uint64_t t = 0; t <= steps.applied_steps_; ++t) {
      power1 *= setup.hyper.beta1;
      power2 *= setup.hyper.beta2;
    }
    for (StepScalars& s : steps.scalars_) {
      s.step_size = static_cast<float>(setup.hyper.lr / static_cast<double>(1 - power1));
      s.sqrt_bias_correction2 = static_cast<float>(std::sqrt(static_cast<double>(1 - power2)));
    }
  }
}

void Saboteur::after_unscale() {
  const OptimizerSetup& setup = victim_.setup_;
  const auto flag_is = [&](bool found) {
    victim_.found_inf_ = found ? 1 : 0;
    victim_.scaler_ = host::loss_scaler_update(setup.scaler, scaler_, found);
  };
  const bool global = victim_.found_inf_ != 0;
  if (is("Z53-found-inf-not-global")) {
    const Span<float> grad = victim_.grad_->as<float>();
    bool here = false;
    for (const Piece& piece : setup.layout->pieces(victim_.ranges_)) {
      for (std::int64_t i = piece.local_begin; i < piece.local_begin + piece.numel; ++i) {
        here = here || !std::isfinite(grad[static_cast<std::size_t>(i)]);
      }
    }
    flag_is(here);
  }
  if (is("Z50-found-inf-dropped-without-scaler") && setup.scaler.kind == LossScalerKind::none) flag_is(false);
  if (is("Z59-overflow-unchecked-in-bf16") && setup.param_dtype == DType::bf16) flag_is(false);
  if (is("Z58-hysteresis-not-refilled")) {
    victim_.scaler_.hysteresis_left = std::min(victim_.scaler_.hysteresis_left, scaler_.hysteresis_left);
  }
  if (!global) return;
  ++skipped_steps_;
  if (is("skip-keeps-norm")) {
    victim_.grad_norm_ = grad_norm_;
    victim_.clip_coef_ = clip_coef_;
  }
  if (is("Z106-counter-advances-on-skip")) ++victim_.steps_.applied_steps_;
}

void Saboteur::after_norm() {
  double& norm = victim_.grad_norm_;
  NormLimbs& limbs = victim_.global_norm_.limbs_;
  const auto world = static_cast<std::uint64_t>(victim_.setup_.comm->world_size());
  if (is("Z40-inf-norm-takes-root") && victim_.setup_.hyper.norm == NormForm::inf) norm = std::pow(norm, 0.0);
  if (is("Z42-norm-squared-in-fp32")) norm = std::sqrt(static_cast<float>(norm * norm));
  const bool over_instances = is("norm-added-over-instances");
  if (is("Z33-replicated-counted-per-rank") || over_instances) {
    const auto times = over_instances ? static_cast<std::uint64_t>(instances(victim_.setup_)) : world;
    for (std::uint64_t& limb : limbs.limbs) limb *= times;
    host::grad_norm_normalise(limbs);
    norm = host::grad_norm_finish(limbs);
  }
  if (is("Z39-norm-differs-across-ranks") && victim_.setup_.comm->rank() + 1 == static_cast<int>(world)) {
    limbs = NormLimbs{};
    victim_.pieces_.run(victim_.setup_.exec, [&](const Exec& exec, const Piece& piece) {
      const auto grad = victim_.grad_->as<float>().subspan(static_cast<std::size_t>(piece.local_begin),
                                                           static_cast<std::size_t>(piece.numel));
      victim_.global_norm_.add(victim_.ops_, exec, grad);
    });
    host::grad_norm_normalise(limbs);
    norm = host::grad_norm_finish(limbs);
  }
}

}  // namespace zeroproof::cuda
