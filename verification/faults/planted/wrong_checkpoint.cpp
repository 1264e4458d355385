// Production that saves something else than it has, or goes on from something else than was saved.

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "common/base/float_formats.hpp"
#include "verification/controls/wrapped_optimizer.hpp"
#include "verification/faults/planted/ground.hpp"

namespace zeroproof::verification {
namespace {

/// A saved state as it comes back.
class WrongSource final : public StateSource {
 public:
  WrongSource(std::string_view fault, const StateSource& inner, const OptimizerSetup& setup)
      : fault_(fault), inner_(inner), setup_(setup) {}

  bool has(BufferId id) const override { return inner_.has(id); }

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

  /// As many elements behind these as there are of them; from the tensor's start on, if it ends before.
  std::int64_t behind(std::int64_t begin, std::int64_t count) const {
    const TensorSlot& slot = setup_.layout->tensors()[tensor_of(begin)];
    return begin + 2 * count <= slot.begin + slot.numel ? begin + count : slot.begin;
  }

  std::int64_t in_next_tensor(std::int64_t begin) const {
    const std::vector<TensorSlot>& tensors = setup_.layout->tensors();
    const std::size_t tensor = tensor_of(begin);
    if (tensor + 1 >= tensors.size() || tensors[tensor + 1].numel != tensors[tensor].numel) return begin;
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
      inner_.read(
          id, piece.global_begin,
          target.subspan(static_cast<std::size_t>(piece.local_begin), static_cast<std::size_t>(piece.numel)));
    }
  }

  static std::int64_t numel(Span<float> values) { return static_cast<std::int64_t>(values.size()); }

  const std::string_view fault_;
  const StateSource& inner_;
  const OptimizerSetup& setup_;
};

class WrongLoad final : public WrappedOptimizer {
 public:
  WrongLoad(std::string_view fault, const OptimizerSetup& setup, std::unique_ptr<DistributedOptimizer> inner)
      : WrappedOptimizer(std::move(inner), *setup.layout), fault_(fault), setup_(setup) {}

  void load_state_from(const StateSource& source) override {
    inner_->load_state_from(WrongSource(fault_, source, setup_));
  }

 private:
  const std::string fault_;
  const OptimizerSetup& setup_;
};

/// Shows whoever saves another buffer than the one it has.
class WrongSave final : public WrappedOptimizer {
 public:
  WrongSave(std::string_view fault, const OptimizerSetup& setup, std::unique_ptr<DistributedOptimizer> inner)
      : WrappedOptimizer(std::move(inner), *setup.layout), fault_(fault), setup_(setup) {}

  void run_phase(Phase phase, GradSource& leaves) override {
    if (phase == Phase::update) {
      for (const ExposedBuffer& buffer : inner_->storage()) {
        if (buffer.id == BufferId::exp_avg_sq || buffer.id == BufferId::master)
          before_[buffer.id] = copied(buffer);
      }
    }
    inner_->run_phase(phase, leaves);
  }

  std::vector<ExposedBuffer> storage() override {
    std::vector<ExposedBuffer> all = inner_->storage();
    for (ExposedBuffer& buffer : all) {
      const bool stale = (fault_ == "resume-saves-before-the-update" && buffer.id == BufferId::exp_avg_sq) ||
                         (fault_ == "resume-saves-a-torn-state" && buffer.id == BufferId::master &&
                          setup_.comm->rank() + 1 == setup_.comm->world_size());
      if (stale && before_.count(buffer.id) > 0) buffer.view.data = before_.at(buffer.id).data();
      if (fault_ != "resume-saves-rounded-masters" || buffer.id != BufferId::master) continue;
      shown_ = copied(buffer);
      for (float& value : shown_) value = to_float(to_bf16(value));
      buffer.view.data = shown_.data();
    }
    return all;
  }

 private:
  static std::vector<float> copied(const ExposedBuffer& buffer) {
    const auto* values = static_cast<const float*>(buffer.view.data);
    return {values, values + buffer.view.numel};
  }

  const std::string fault_;
  const OptimizerSetup& setup_;
  std::map<BufferId, std::vector<float>> before_;
  std::vector<float> shown_;
};

}  // namespace

std::unique_ptr<DistributedOptimizer> wrong_checkpoint(std::string_view fault, const Ground& ground,
                                                       std::unique_ptr<DistributedOptimizer>& inner) {
  for (const std::string_view saves :
       {"resume-saves-before-the-update", "resume-saves-a-torn-state", "resume-saves-rounded-masters"}) {
    if (fault == saves) return std::make_unique<WrongSave>(fault, ground.setup, std::move(inner));
  }
  for (const std::string_view loads :
       {"resume-forgets-steps", "resume-forgets-scale", "resume-forgets-growth", "resume-forgets-hysteresis",
        "resume-forgets-tensor-steps", "resume-forgets-moment", "resume-reaches-first-rank-alone",
        "resume-counts-padding", "resume-reads-the-next-shard", "resume-shifts-index"}) {
    if (fault == loads) return std::make_unique<WrongLoad>(fault, ground.setup, std::move(inner));
  }
  return nullptr;
}

}  // namespace zeroproof::verification
