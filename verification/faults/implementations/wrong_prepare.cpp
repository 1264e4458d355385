// Wrong scalars of a step from public bugs: replaced phase prepare.

#include <cmath>

#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/optimizer/host/host_step.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

using cuda::HostStep;

/// Inputs of the scalars of the next step that a fault may change.
struct Belief {
  ParamGroups groups;
  std::int64_t scheduled = 1;  ///< step of the schedules
  std::int64_t divisor = 1;
  bool one_counter = false;  ///< tensors share one count
};

class WrongPrepare final : public HostStep {
 public:
  using Change = void (*)(Belief& belief, const OptimizerSetup& setup, const GradSource& grads,
                          std::int64_t skipped);

  WrongPrepare(cuda::RankShard& shard, bool fused, const cuda::KernelTable& ops, Change change)
      : HostStep(shard, fused, ops), change_(change) {}

 private:
  void prepare(GradSource& grads) override {
    skipped_ += skipped() ? 1 : 0;
    HostStep::prepare(grads);
    const auto next = static_cast<std::int64_t>(steps_.applied_steps()) + 1;
    Belief belief{setup_.groups, next, setup_.micro_batches, false};
    change_(belief, setup_, grads, skipped_);
    const TensorView view = steps_.scalars_view();
    auto* scalars = static_cast<StepScalars*>(view.data);
    const auto* counts = static_cast<const std::uint64_t*>(steps_.tensor_steps_view().data);
    for (std::int64_t i = 0; i < view.numel / num_step_scalar_words; ++i) {
      const bool own = steps_.per_tensor();
      const int group = own ? setup_.groups.of(i) : static_cast<int>(i);
      const OptimizerHyper hyper =
          hyper_of(belief.groups, setup_.hyper, group, belief.scheduled, setup_.micro_batches);
      const std::int64_t t =
          own && !belief.one_counter ? static_cast<std::int64_t>(counts[i]) + 1 : next;
      scalars[i] = cuda::host::step_scalars(hyper, t, scaler_.log2_scale, belief.divisor);
    }
  }

  const Change change_;
  std::int64_t skipped_ = 0;
};

void sum(Belief& belief, const OptimizerSetup&, const GradSource&, std::int64_t) {
  belief.divisor = 1;
}

void parts_count(Belief& belief, const OptimizerSetup& setup, const GradSource&, std::int64_t) {
  belief.divisor = setup.micro_batches * setup.cp;
}

void own_tokens(Belief& belief, const OptimizerSetup& setup, const GradSource& grads,
                std::int64_t) {
  std::int64_t own = 0;
  for (const std::int64_t j : cuda::own_micro_batches(setup)) own += grads.num_tokens(j);
  belief.divisor = own * setup.comm->world_size();
}

void one_counter(Belief& belief, const OptimizerSetup&, const GradSource&, std::int64_t) {
  belief.one_counter = true;
}

void skips_count(Belief& belief, const OptimizerSetup&, const GradSource&, std::int64_t skipped) {
  belief.scheduled += skipped;
}

void first_rate_constant(Belief& belief, const OptimizerSetup&, const GradSource&, std::int64_t) {
  if (belief.scheduled != 1) return;
  belief.groups.schedule.warmup = 0;
  belief.groups.schedule.decay = DecayShape::constant;
}

/// beta^t is a product that goes on from step to step, in fp32.
class RunningPower final : public HostStep {
 public:
  using HostStep::HostStep;

 private:
  void prepare(GradSource& grads) override {
    HostStep::prepare(grads);
    float power1 = 1;
    float power2 = 1;
    for (std::uint64_t t = 0; t <= steps_.applied_steps(); ++t) {
      power1 *= setup_.hyper.beta1;
      power2 *= setup_.hyper.beta2;
    }
    const TensorView view = steps_.scalars_view();
    auto* scalars = static_cast<StepScalars*>(view.data);
    for (std::int64_t i = 0; i < view.numel / num_step_scalar_words; ++i) {
      scalars[i].step_size = static_cast<float>(setup_.hyper.lr / static_cast<double>(1 - power1));
      scalars[i].sqrt_bias_correction2 =
          static_cast<float>(std::sqrt(static_cast<double>(1 - power2)));
    }
  }
};

/// The flag of the step before is not cleared.
class FlagStays final : public HostStep {
 public:
  using HostStep::HostStep;

 private:
  void prepare(GradSource& grads) override { steps_.prepare(grads, scaler_.log2_scale); }
};

}  // namespace

cuda::MakeLocalStep wrong_prepare(std::string_view fault, const FaultContext& context) {
  struct Row {
    std::string_view fault;
    WrongPrepare::Change change;
  };
  constexpr Row rows[] = {{"sum-instead-of-mean", sum},
                          {"cp-in-divisor", parts_count},
                          {"mean-of-means", own_tokens},
                          {"one-counter-for-all", one_counter},
                          {"schedule-advances-on-skip", skips_count},
                          {"first-lr-not-scheduled", first_rate_constant}};
  for (const Row& row : rows) {
    if (row.fault == fault) return step_of<WrongPrepare>(context, row.change);
  }
  if (fault == "power-by-running-product") return step_of<RunningPower>(context);
  if (fault == "found-inf-not-cleared") return step_of<FlagStays>(context);
  return nullptr;
}

}  // namespace zeroproof::verification
