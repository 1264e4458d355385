#include "verification/dump/dump_plan.hpp"

#include <cstring>

#include "common/step/kept_buffers.hpp"
#include "common/step/state_buffers.hpp"
#include "verification/case/step_scalar_names.hpp"

namespace zeroproof::verification {
namespace {

template <class T>
std::vector<std::byte> bytes_of_values(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<std::byte> bytes_of_value(const T& value) {
  return bytes_of_values(std::vector<T>{value});
}

std::vector<std::byte> scalar_word(const std::vector<StepScalars>& sets, std::int64_t word) {
  std::vector<std::uint32_t> words;
  for (const StepScalars& set : sets) {
    std::uint32_t bits;
    std::memcpy(&bits, reinterpret_cast<const std::byte*>(&set) + word * 4, sizeof(bits));
    words.push_back(bits);
  }
  return bytes_of_values(words);
}

}  // namespace

DumpPlan::DumpPlan(const Experiment& experiment) : layout_(experiment.layout()) {
  const OptimizerSetup setup = experiment.setup();
  const auto tensors = static_cast<std::int64_t>(layout_.tensors().size());
  const bool per_tensor = setup.missing_grad == MissingGrad::skip;
  const std::int64_t sets = per_tensor ? tensors : setup.groups.count();
  for (std::size_t word = 0; word < step_scalar_names.size(); ++word) {
    const bool flag = word + num_step_scalar_flags >= step_scalar_names.size();
    buffers_.push_back({"step_scalars." + std::string(step_scalar_names[word]),
                        BufferId::step_scalars,
                        flag ? SafeDType::u32 : SafeDType::f32,
                        false,
                        {sets},
                        static_cast<std::int64_t>(word)});
  }
  buffers_.push_back({"log2_loss_scale", BufferId::loss_scaler, SafeDType::i32, false, {}});
  for (const char* counter : {"growth_tracker", "hysteresis_left"}) {
    buffers_.push_back({counter, BufferId::loss_scaler, SafeDType::i32, false, {}, -1, true});
  }
  buffers_.push_back({"found_inf", BufferId::found_inf, SafeDType::u32, false, {}});
  buffers_.push_back({"skipped", BufferId::found_inf, SafeDType::boolean, false, {}});
  std::vector<std::int64_t> of_groups;
  if (setup.clip_groups.count() > 1) of_groups = {setup.clip_groups.count()};
  buffers_.push_back({"grad_norm", BufferId::grad_norm, SafeDType::f64, false, of_groups});
  buffers_.push_back({"clip_coef", BufferId::clip_coef, SafeDType::f32, false, of_groups});
  for (const BufferId id : kept_buffers(setup.hyper)) {
    buffers_.push_back({std::string(name(id)), id, SafeDType::f32, true, {}});
  }
  buffers_.push_back({"master", BufferId::master, SafeDType::f32, true, {}});
  buffers_.push_back({"applied_steps", BufferId::applied_steps, SafeDType::u64, false, {}});
  if (per_tensor)
    buffers_.push_back({"tensor_steps", BufferId::tensor_steps, SafeDType::u64, false, {tensors}});
  buffers_.push_back({"param", BufferId::param_full, safe_dtype(setup.param_dtype), true, {}});
}

std::vector<DumpTensor> DumpPlan::tensors(const std::vector<std::int64_t>& steps) const {
  std::vector<DumpTensor> all;
  for (const std::int64_t step : steps) {
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      const DumpBuffer& buffer = buffers_[b];
      if (buffer.start_only && step != 0) continue;
      if (!buffer.per_parameter) {
        all.push_back({{dump_name(buffer.name, step), buffer.dtype, buffer.shape}, b, step, -1});
        continue;
      }
      for (std::size_t i = 0; i < layout_.tensors().size(); ++i) {
        const TensorSlot& slot = layout_.tensors()[i];
        all.push_back({{dump_name(buffer.name, step, slot.name), buffer.dtype, slot.shape},
                       b,
                       step,
                       static_cast<std::int64_t>(i)});
      }
    }
  }
  return all;
}

std::vector<std::byte> DumpPlan::bytes_of(const DumpTensor& tensor,
                                          const reference::DenseOptimizer& optimizer) const {
  const DumpBuffer& buffer = buffers_[tensor.buffer];
  const reference::DenseStep& last = optimizer.last_step();
  if (buffer.per_parameter) {
    TensorView view = optimizer.buffer(buffer.id);
    std::vector<float> values;  // of what is not kept in fp32: as the next step reads it (R25)
    if (is_state(buffer.id) && view.dtype != DType::fp32) {
      values = optimizer.values(buffer.id);
      view = {values.data(), DType::fp32, static_cast<std::int64_t>(values.size())};
    }
    const TensorSlot& slot = layout_.tensors()[static_cast<std::size_t>(tensor.parameter)];
    const std::int64_t width = num_bytes(view.dtype);
    const auto* begin = static_cast<const std::byte*>(view.data) + slot.begin * width;
    return {begin, begin + slot.numel * width};
  }
  if (buffer.name == "skipped") return bytes_of_value<std::uint8_t>(last.skipped ? 1 : 0);
  switch (buffer.id) {
    case BufferId::step_scalars:
      return scalar_word(last.scalars, buffer.word);
    case BufferId::loss_scaler:
      return bytes_of_value<std::int32_t>(last.log2_loss_scale);
    case BufferId::found_inf:
      return bytes_of_value(last.found_inf);
    case BufferId::grad_norm:
      return bytes_of_values(last.grad_norm);
    case BufferId::clip_coef:
      return bytes_of_values(last.clip_coef);
    case BufferId::tensor_steps:
      return bytes_of_values(optimizer.tensor_steps());
    default:
      return bytes_of_value(static_cast<std::uint64_t>(optimizer.applied_steps()));
  }
}

std::string dump_name(const std::string& buffer, std::int64_t step, const std::string& parameter) {
  return buffer + "." + std::to_string(step) + (parameter.empty() ? "" : "." + parameter);
}

}  // namespace zeroproof::verification
