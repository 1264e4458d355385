// Production that saves or loads a wrong checkpoint.

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "common/step/param_scaling.hpp"
#include "common/step/state_format.hpp"
#include "cuda/host/operations.hpp"
#include "verification/faults/controls/wrapped_optimizer.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

/// A saved state as it is loaded.
class WrongSource final : public StateSource {
 public:
  WrongSource(std::string_view fault, const StateSource& inner, const OptimizerSetup& setup)
      : fault_(fault), inner_(inner), setup_(setup) {}

  bool has(BufferId id) const override {
    if (fault_ == "resume-forgets-state-scales" && is_state_scale(id)) return false;
    return inner_.has(id);
  }

  std::int64_t applied_steps() const override {
    return fault_ == "resume-forgets-steps" ? 0 : inner_.applied_steps();
  }

  LossScalerState scaler() const override {
    LossScalerState state = inner_.scaler();
    if (fault_ == "resume-forgets-scale") state.log2_scale = setup_.scaler.log2_initial;
    if (fault_ == "resume-forgets-growth") state.growth_tracker = 0;
    if (fault_ == "resume-forgets-hysteresis") state.hysteresis_left = setup_.scaler.hysteresis;
    return state;
  }

  std::vector<std::uint64_t> tensor_steps() const override {
    std::vector<std::uint64_t> steps = inner_.tensor_steps();
    if (fault_ == "resume-forgets-tensor-steps")
      std::ranges::fill(steps, static_cast<std::uint64_t>(inner_.applied_steps()));
    return steps;
  }

  void read(BufferId id, std::int64_t begin, Span<float> target) const override {
    const bool moment = id == BufferId::exp_avg;
    const bool lost = fault_ == "resume-forgets-moment" ||
                      (fault_ == "resume-reaches-first-rank-alone" && setup_.comm->rank() != 0);
    if (moment && lost) {
      std::ranges::fill(target, 0.0F);
      return;
    }
    if (fault_ == "resume-counts-padding") return read_packed(id, begin, target);
    std::int64_t from = begin;
    if (fault_ == "resume-reads-the-next-shard") from = behind(begin, numel(target));
    if (fault_ == "resume-shifts-index" && id == BufferId::exp_avg_sq) from = in_next_tensor(begin);
    inner_.read(id, from, target);
  }

 private:
  std::size_t tensor_of(std::int64_t place) const {
    return static_cast<std::size_t>(setup_.layout->tensor_at(place));
  }

  /// Reads that many elements after these; from the tensor's start if it ends before.
  std::int64_t behind(std::int64_t begin, std::int64_t count) const {
    const TensorSlot& slot = setup_.layout->tensors()[tensor_of(begin)];
    return begin + 2 * count <= slot.begin + slot.numel ? begin + count : slot.begin;
  }

  std::int64_t in_next_tensor(std::int64_t begin) const {
    const std::vector<TensorSlot>& tensors = setup_.layout->tensors();
    const std::size_t tensor = tensor_of(begin);
    if (tensor + 1 >= tensors.size() || tensors[tensor + 1].numel != tensors[tensor].numel)
      return begin;
    return begin - tensors[tensor].begin + tensors[tensor + 1].begin;
  }

  /// The buffer was saved with its padding, and is read as if it had none.
  void read_packed(BufferId id, std::int64_t begin, Span<float> target) const {
    const std::vector<TensorSlot>& tensors = setup_.layout->tensors();
    const std::size_t tensor = tensor_of(begin);
    std::int64_t place = begin - tensors[tensor].begin;
    for (std::size_t before = 0; before < tensor; ++before) place += tensors[before].numel;
    std::ranges::fill(target, 0.0F);
    for (const Piece& piece : setup_.layout->pieces({{place, place + numel(target)}})) {
      inner_.read(id, piece.global_begin, target.subspan(piece.local_begin, piece.numel));
    }
  }

  static std::int64_t numel(Span<float> values) { return static_cast<std::int64_t>(values.size()); }

  const std::string_view fault_;
  const StateSource& inner_;
  const OptimizerSetup& setup_;
};

class WrongLoad final : public WrappedOptimizer {
 public:
  WrongLoad(std::string_view fault, const OptimizerSetup& setup,
            std::unique_ptr<DistributedOptimizer> inner)
      : WrappedOptimizer(std::move(inner), *setup.layout), fault_(fault), setup_(setup) {}

  void load_state_from(const StateSource& source) override {
    inner_->load_state_from(WrongSource(fault_, source, setup_));
  }

 private:
  const std::string fault_;
  const OptimizerSetup& setup_;
};

/// Loads tensors, but keeps the scalars of its constructor's settings: defaults, which differ from
/// the run's.
class WrongScalars final : public WrappedOptimizer {
 public:
  WrongScalars(std::string_view fault, const OptimizerSetup& setup,
               std::unique_ptr<DistributedOptimizer> inner)
      : WrappedOptimizer(std::move(inner), *setup.layout), fault_(fault), setup_(setup) {}

  void load_state_from(const StateSource& source) override {
    inner_->load_state_from(source);
    loaded_ = true;
  }

  void run_phase(Phase phase, GradSource& leaves) override {
    inner_->run_phase(phase, leaves);
    if (phase != Phase::prepare || !loaded_) return;
    for (const ExposedBuffer& buffer : inner_->exposed(phase)) {
      if (buffer.id == BufferId::step_scalars) spoil(buffer.view);
    }
  }

 private:
  void spoil(const TensorView& view) const {
    const std::int64_t t = inner_->applied_steps() + 1;
    OptimizerHyper hyper = setup_.hyper;
    if (fault_ == "resume-keeps-constructor-rate") {
      hyper.lr = OptimizerHyper{}.lr;
    } else {
      hyper.beta1 = OptimizerHyper{}.beta1;
      hyper.beta2 = OptimizerHyper{}.beta2;
    }
    auto* const scalars = static_cast<StepScalars*>(view.data);
    for (std::int64_t group = 0; group < view.numel / num_step_scalar_words; ++group) {
      StepScalars& right = scalars[group];
      StepScalars made = cuda::host::step_scalars(
          hyper_of(setup_.groups, hyper, static_cast<int>(group), t, setup_.micro_batches), t,
          inner_->loss_scaler().log2_scale, setup_.micro_batches);
      made.beta1 = right.beta1;
      made.one_minus_beta1 = right.one_minus_beta1;
      made.beta2 = right.beta2;
      made.one_minus_beta2 = right.one_minus_beta2;
      right = made;
    }
  }

  const std::string fault_;
  const OptimizerSetup& setup_;
  bool loaded_ = false;
};

/// Exposes a wrong buffer to the writer of the checkpoint.
class WrongSave final : public WrappedOptimizer {
 public:
  WrongSave(std::string_view fault, const OptimizerSetup& setup,
            std::unique_ptr<DistributedOptimizer> inner)
      : WrappedOptimizer(std::move(inner), *setup.layout), fault_(fault), setup_(setup) {}

  void run_phase(Phase phase, GradSource& leaves) override {
    if (phase == Phase::update) {
      for (const ExposedBuffer& buffer : inner_->storage()) {
        if (buffer.id == BufferId::exp_avg_sq || buffer.id == BufferId::master)
          before_[buffer.id] = copied(buffer);
        if (buffer.id == BufferId::tensor_steps) counts_ = counts_of(buffer);
      }
    }
    inner_->run_phase(phase, leaves);
  }

  std::vector<ExposedBuffer> storage() override {
    std::vector<ExposedBuffer> all = inner_->storage();
    for (ExposedBuffer& buffer : all) {
      const bool stale =
          (fault_ == "resume-saves-before-the-update" && buffer.id == BufferId::exp_avg_sq) ||
          (fault_ == "resume-saves-a-torn-state" && buffer.id == BufferId::master &&
           setup_.comm->rank() + 1 == setup_.comm->world_size());
      if (stale && before_.count(buffer.id) > 0) buffer.view.data = before_.at(buffer.id).data();
      if (fault_ == "resume-saves-scale-by-reference" && buffer.id == BufferId::param_scale) {
        shown_ = scales_after_next_step(all);
        buffer.view.data = shown_.data();
      }
      if (buffer.id != BufferId::master) continue;
      if (fault_ == "resume-saves-rounded-masters") {
        shown_ = copied(buffer);
        for (float& value : shown_) value = to_float(to_bf16(value));
      } else if (fault_ == "resume-loses-resting-tensors") {
        shown_ = without_resting(buffer);
      } else {
        continue;
      }
      buffer.view.data = shown_.data();
    }
    return all;
  }

 private:
  static std::vector<std::uint64_t> counts_of(const ExposedBuffer& buffer) {
    const auto* values = static_cast<const std::uint64_t*>(buffer.view.data);
    return {values, values + buffer.view.numel};
  }

  /// Zeros for tensors that the last update did not step, which the writer skips.
  std::vector<float> without_resting(const ExposedBuffer& master) const {
    std::vector<float> values = copied(master);
    std::vector<std::uint64_t> now;
    for (const ExposedBuffer& buffer : inner_->storage()) {
      if (buffer.id == BufferId::tensor_steps) now = counts_of(buffer);
    }
    for (const Piece& piece : setup_.layout->pieces(master.ranges)) {
      const auto tensor = static_cast<std::size_t>(piece.tensor);
      if (now.at(tensor) == counts_.at(tensor))
        std::fill_n(values.begin() + piece.local_begin, piece.numel, 0.0F);
    }
    return values;
  }

  /// Saves a reference to the scales; when the file is written, the next step has recomputed them
  /// from the histories.
  std::vector<float> scales_after_next_step(const std::vector<ExposedBuffer>& all) const {
    const auto of = [&](BufferId id) { return *std::ranges::find(all, id, &ExposedBuffer::id); };
    std::vector<float> scale = copied(of(BufferId::param_scale)), scale_inv(scale.size());
    const TensorView history = of(BufferId::amax_history).view;
    const auto* const words = static_cast<const std::uint32_t*>(history.data);
    std::vector<std::uint32_t> moved(words, words + history.numel);
    cuda::host::delayed_scales(setup_.exec, delayed_of(setup_.scaling, setup_.param_dtype), moved,
                               scale, scale_inv);
    return scale;
  }

  static std::vector<float> copied(const ExposedBuffer& buffer) {
    const auto* values = static_cast<const float*>(buffer.view.data);
    return {values, values + buffer.view.numel};
  }

  const std::string fault_;
  const OptimizerSetup& setup_;
  std::map<BufferId, std::vector<float>> before_;
  std::vector<std::uint64_t> counts_;  // of tensors, before the last update
  std::vector<float> shown_;
};

}  // namespace

std::unique_ptr<DistributedOptimizer> wrong_checkpoint(
    std::string_view fault, const FaultContext& context,
    std::unique_ptr<DistributedOptimizer>& inner) {
  for (const std::string_view saves :
       {"resume-saves-before-the-update", "resume-saves-a-torn-state",
        "resume-saves-rounded-masters", "resume-loses-resting-tensors",
        "resume-saves-scale-by-reference"}) {
    if (fault != saves) continue;
    ZP_CHECK(
        fault != "resume-saves-scale-by-reference" ||
            (has_scales(context.setup.param_dtype) && keeps_history(context.setup.scaling)),
        ErrorCode::unavailable,
        "the fault 'resume-saves-scale-by-reference' cannot be planted without histories of amaxes",
        "without a history no later step changes a saved scale",
        "run it with the recipe fp8-delayed");
    return std::make_unique<WrongSave>(fault, context.setup, std::move(inner));
  }
  for (const std::string_view loads :
       {"resume-forgets-steps", "resume-forgets-scale", "resume-forgets-growth",
        "resume-forgets-hysteresis", "resume-forgets-tensor-steps", "resume-forgets-moment",
        "resume-reaches-first-rank-alone", "resume-counts-padding", "resume-reads-the-next-shard",
        "resume-shifts-index", "resume-forgets-state-scales"}) {
    if (fault == loads) return std::make_unique<WrongLoad>(fault, context.setup, std::move(inner));
  }
  for (const std::string_view keeps :
       {"resume-keeps-constructor-rate", "resume-keeps-constructor-powers"}) {
    if (fault == keeps)
      return std::make_unique<WrongScalars>(fault, context.setup, std::move(inner));
  }
  return nullptr;
}

}  // namespace zeroproof::verification
