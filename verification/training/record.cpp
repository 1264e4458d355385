#include "verification/training/record.hpp"

#include "common/base/canonical_copy.hpp"
#include "common/base/guarded_buffer.hpp"
#include "common/base/parallel_for.hpp"
#include "common/io/safetensors/safetensors_writer.hpp"
#include "verification/cases/config/config_write.hpp"
#include "verification/cases/recorded.hpp"
#include "verification/compare/judge/dense_baseline.hpp"
#include "verification/model/recorded.hpp"

namespace zeroproof::verification {
namespace {

std::vector<SafeTensorSpec> specs_of(const Experiment& experiment) {
  const RunConfig& config = experiment.config();
  std::vector<SafeTensorSpec> specs = {
      {"loss", SafeDType::f64, {config.steps, config.micro_batches}}};
  for (const TensorSlot& slot : experiment.layout().tensors()) {
    specs.push_back({"param." + slot.name, SafeDType::f32, slot.shape});
    for (std::int64_t step = 1; step <= config.steps; ++step) {
      for (std::int64_t j = 0; j < config.micro_batches; ++j) {
        specs.push_back({workload::gradient_name(step, j, slot.name), SafeDType::f32, slot.shape});
      }
    }
  }
  return specs;
}

/// The state before the first step, for readers of the file (verification/cli/README.md, "record").
std::string initial_state_text(const Experiment& experiment) {
  const std::string steps =
      std::to_string(experiment.initial_step()) + " steps applied; the state ";
  if (experiment.config().initial_state == InitialState::zero) return steps + "is 0";
  return steps +
         "is in no tensor of this file: element i has exp_avg 1e-3 bell(2, i), exp_avg_sq 1e-5 "
         "uniform(3, i), max_exp_avg_sq 1e-4 uniform(4, i), momentum_buffer 1e-3 bell(4, i); "
         "verification/cli/README.md defines them under \"record\"";
}

SafeMetadata metadata_of(const Experiment& experiment) {
  std::string order;
  for (const TensorSlot& slot : experiment.layout().tensors()) {
    if (!order.empty()) order += '\n';
    order += slot.name;
  }
  return {{"settings", settings_text(experiment)},
          {"steps", std::to_string(experiment.config().steps)},
          {"micro_batches", std::to_string(experiment.config().micro_batches)},
          {"loss_scale_log2", "0"},
          {"order", order},
          {"initial_state", initial_state_text(experiment)},
          {"source", "zeroproof " ZP_VERSION ", " + experiment.workload() + ", parameters in " +
                         std::string(name(experiment.param_dtype()))}};
}

/// The elements of one tensor in a flat fp32 buffer, as a file holds them (R9).
std::vector<std::byte> bytes_of(const float* flat, const TensorSlot& slot) {
  const Span<const float> values(flat + slot.begin, static_cast<std::size_t>(slot.numel));
  std::vector<std::byte> bytes(values.size_bytes());
  copy_canonical(values, bytes);
  return bytes;
}

/// Gradients and losses of one step.
struct GradsOfStep {
  std::vector<GuardedBuffer> values;
  std::vector<double> losses;

  std::vector<TensorView> views() const {
    std::vector<TensorView> result;
    for (const GuardedBuffer& value : values) result.push_back(value.view());
    return result;
  }
};

GradsOfStep leaves_of(const Experiment& experiment, std::int64_t step, const TensorView& params,
                      int log2_scale, DType dtype) {
  const std::int64_t count = experiment.config().micro_batches;
  GradsOfStep leaves;
  leaves.losses.resize(count);
  for (std::int64_t j = 0; j < count; ++j)
    leaves.values.emplace_back(experiment.layout().padded_numel(), dtype);
  parallel_for(available_cores(), count, [&](std::int64_t j) {
    const auto index = static_cast<std::size_t>(j);
    leaves.losses[index] =
        experiment.micro_batch_grad(step, j, params, log2_scale, leaves.values[index].view());
  });
  return leaves;
}

}  // namespace

std::string settings_text(const Experiment& experiment) {
  RunConfig settings = experiment.config();
  settings.dtypes = {experiment.param_dtype()};
  settings.text.clear();  // not read again
  return to_toml(settings);
}

void record_gradients(const Experiment& experiment, const std::string& file) {
  check_recordable(experiment.config());
  const FlatLayout& layout = experiment.layout();
  const RunConfig& config = experiment.config();
  SafetensorsWriter writer(file, specs_of(experiment), metadata_of(experiment),
                           workload::recording_limits());
  reference::DenseOptimizer optimizer(dense_settings(experiment), experiment.initial_state());
  for (const TensorSlot& slot : layout.tensors()) {
    writer.write("param." + slot.name, bytes_of(optimizer.master().data(), slot));
  }
  for (std::int64_t step = 1; step <= config.steps; ++step) {
    GuardedBuffer decoded;
    const TensorView params = params_of_model(experiment, optimizer, decoded);
    const GradsOfStep unscaled = leaves_of(experiment, step, params, 0, DType::fp32);
    for (std::int64_t j = 0; j < config.micro_batches; ++j) {
      const auto* flat = static_cast<const float*>(unscaled.values[j].data());
      for (const TensorSlot& slot : layout.tensors()) {
        writer.write(workload::gradient_name(step, j, slot.name), bytes_of(flat, slot));
      }
    }
    std::vector<std::byte> losses(unscaled.losses.size() * sizeof(double));
    copy_canonical(
        {const_cast<double*>(unscaled.losses.data()), DType::fp64, std::ssize(unscaled.losses)},
        losses);
    writer.write("loss", losses);
    const int scale = optimizer.loss_scaler().log2_scale;
    if (scale == 0 && experiment.grad_dtype() == DType::fp32) {
      optimizer.step(unscaled.views(), facts_of(experiment, step));
    } else {
      optimizer.step(leaves_of(experiment, step, params, scale, experiment.grad_dtype()).views(),
                     facts_of(experiment, step));
    }
  }
  writer.finish();
}

}  // namespace zeroproof::verification
