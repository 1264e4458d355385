// Production wrapped with wrong state, gradients or views.

#include <algorithm>
#include <utility>

#include "common/base/float_formats.hpp"
#include "verification/faults/controls/wrapped_optimizer.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

/// Loads a state that differs from the saved one.
class WrongState final : public WrappedOptimizer {
 public:
  /// A saved state as it is loaded; `values`: memory for one buffer of it.
  using Change = void (*)(FullState& state, const OptimizerSetup& setup,
                          std::vector<float>& values);

  WrongState(std::unique_ptr<DistributedOptimizer> inner, const OptimizerSetup& setup,
             Change change)
      : WrappedOptimizer(std::move(inner), *setup.layout), setup_(setup), change_(change) {}

  void load_state(const FullState& saved) override {
    FullState state = saved;
    std::vector<float> values;
    change_(state, setup_, values);
    inner_->load_state(state);
  }

 private:
  const OptimizerSetup& setup_;
  const Change change_;
};

void without_growth(FullState& state, const OptimizerSetup&, std::vector<float>&) {
  state.scaler.growth_tracker = 0;
}

void master_of_params(FullState& state, const OptimizerSetup& setup, std::vector<float>& values) {
  values.assign(state.master.begin(), state.master.end());
  for (float& value : values) {
    value = setup.param_dtype == DType::fp16 ? to_float(to_fp16(value)) : to_float(to_bf16(value));
  }
  state.master = values;
}

/// exp_avg is found by the position of the next tensor, if that has the same length.
void shifted(FullState& state, const OptimizerSetup& setup, std::vector<float>& values) {
  Span<const float>& exp_avg = state.slots[StateSlot::exp_avg];
  values.assign(exp_avg.begin(), exp_avg.end());
  const std::vector<TensorSlot>& tensors = setup.layout->tensors();
  for (std::size_t i = 0; i + 1 < tensors.size(); ++i) {
    if (tensors[i].numel != tensors[i + 1].numel) continue;
    std::copy_n(exp_avg.begin() + tensors[i + 1].begin, tensors[i].numel,
                values.begin() + tensors[i].begin);
  }
  exp_avg = values;
}

/// exp_avg of matrices as a heavy ball has it, loaded as a moving average (R28).
void momentum_of_other_family(FullState& state, const OptimizerSetup& setup,
                              std::vector<float>& values) {
  Span<const float>& exp_avg = state.slots[StateSlot::exp_avg];
  values.assign(exp_avg.begin(), exp_avg.end());
  const auto factor = static_cast<float>(1 / (1 - setup.hyper.momentum));
  for (std::size_t t = 0; t < setup.matrix_tensors.size(); ++t) {
    if (!setup.matrix_tensors[t].is_matrix) continue;
    const TensorSlot& slot = setup.layout->tensors()[t];
    for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i)
      values[static_cast<std::size_t>(i)] *= factor;
  }
  exp_avg = values;
}

/// Forwards every call.
class WrappedGrads : public GradSource {
 public:
  explicit WrappedGrads(GradSource& inner) : inner_(inner) {}

  TensorView micro_batch_grad(std::int64_t micro_batch) override {
    return inner_.micro_batch_grad(micro_batch);
  }
  std::int64_t num_tokens(std::int64_t micro_batch) const override {
    return inner_.num_tokens(micro_batch);
  }
  bool has_grad(std::int64_t micro_batch, std::int64_t tensor) const override {
    return inner_.has_grad(micro_batch, tensor);
  }
  LayeredModel* layers() override { return inner_.layers(); }

 protected:
  GradSource& inner_;
};

class ComputedTwice final : public WrappedGrads {
 public:
  using WrappedGrads::WrappedGrads;
  TensorView micro_batch_grad(std::int64_t micro_batch) override {
    inner_.micro_batch_grad(micro_batch);
    return inner_.micro_batch_grad(micro_batch);
  }
};

/// The values read are correct; afterwards the caller's buffer is not.
class Edited final : public WrappedGrads {
 public:
  using WrappedGrads::WrappedGrads;
  TensorView micro_batch_grad(std::int64_t micro_batch) override {
    const TensorView grad = inner_.micro_batch_grad(micro_batch);
    auto* bytes = static_cast<std::byte*>(grad.data);
    copy_.assign(bytes, bytes + grad.num_bytes());
    if (grad.numel > 0) *bytes ^= std::byte{1};
    return {copy_.data(), grad.dtype, grad.numel};
  }

 private:
  std::vector<std::byte> copy_;
};

class ZeroForNone final : public WrappedGrads {
 public:
  using WrappedGrads::WrappedGrads;
  bool has_grad(std::int64_t, std::int64_t) const override { return true; }
};

template <class Source>
class WrongGrads final : public WrappedOptimizer {
 public:
  using WrappedOptimizer::WrappedOptimizer;
  void run_phase(Phase phase, GradSource& grads) override {
    Source wrong(grads);
    inner_->run_phase(phase, wrong);
  }
};

class HiddenParams final : public WrappedOptimizer {
 public:
  using WrappedOptimizer::WrappedOptimizer;
  std::vector<ExposedBuffer> exposed(Phase phase) override {
    return phase == Phase::cast ? std::vector<ExposedBuffer>{} : inner_->exposed(phase);
  }
};

}  // namespace

std::unique_ptr<DistributedOptimizer> surround(std::string_view fault, const FaultContext& context,
                                               std::unique_ptr<DistributedOptimizer>& inner) {
  const OptimizerSetup& setup = context.setup;
  const auto state = [&](WrongState::Change change) {
    return std::make_unique<WrongState>(std::move(inner), setup, change);
  };
  if (fault == "scaler-partly-saved") return state(without_growth);
  if (fault == "master-from-16-bit") return state(master_of_params);
  if (fault == "muon-resumes-other-family") return state(momentum_of_other_family);
  if (fault == "state-index-shift") return state(shifted);
  const FlatLayout& layout = *setup.layout;
  if (fault == "leaf-computed-twice")
    return std::make_unique<WrongGrads<ComputedTwice>>(std::move(inner), layout);
  if (fault == "leaf-edited") return std::make_unique<WrongGrads<Edited>>(std::move(inner), layout);
  if (fault == "zero-instead-of-none")
    return std::make_unique<WrongGrads<ZeroForNone>>(std::move(inner), layout);
  if (fault == "buffer-hidden") return std::make_unique<HiddenParams>(std::move(inner), layout);
  return nullptr;
}

}  // namespace zeroproof::verification
