#include "verification/tools/train/dump/dump_plan.hpp"

#include <cstring>
#include <limits>

#include "common/base/canonical_copy.hpp"
#include "common/step/scaled_params.hpp"
#include "common/step/state_buffers.hpp"
#include "verification/cases/step_scalar_names.hpp"

namespace zeroproof::verification {
namespace {

/// As a file holds them (R9).
std::vector<std::byte> canonical_bytes(const TensorView& view) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(view.num_bytes()));
  copy_canonical(view, bytes);
  return bytes;
}

template <class T>
std::vector<std::byte> bytes_of_values(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// The same of floats: fp32 or fp64.
template <class T>
std::vector<std::byte> bytes_of_floats(const std::vector<T>& values) {
  return canonical_bytes({const_cast<T*>(values.data()),
                          sizeof(T) == sizeof(double) ? DType::fp64 : DType::fp32,
                          std::ssize(values)});
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

std::int64_t num_state_blocks(const TensorSlot& slot) {
  return (slot.numel + state_block_numel - 1) / state_block_numel;
}

}  // namespace

DumpPlan::DumpPlan(const Experiment& experiment, Content content) : layout_(experiment.layout()) {
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
  const bool gradients = content == Content::gradients;
  if (gradients) buffers_.push_back({"grad_sum", BufferId::grad_sum, SafeDType::f32, true, {}});
  buffers_.push_back({"found_inf", BufferId::found_inf, SafeDType::u32, false, {}});
  buffers_.push_back({"skipped", BufferId::found_inf, SafeDType::boolean, false, {}});
  std::vector<std::int64_t> of_groups;
  if (setup.clip_groups.count() > 1) of_groups = {setup.clip_groups.count()};
  buffers_.push_back({"grad_norm", BufferId::grad_norm, SafeDType::f64, false, of_groups});
  buffers_.push_back({"clip_coef", BufferId::clip_coef, SafeDType::f32, false, of_groups});
  if (gradients) buffers_.push_back({"grad", BufferId::grad, SafeDType::f32, true, {}});
  for (const StateSlot slot : kept_slots(setup.hyper)) {
    buffers_.push_back({std::string(name(slot)), buffer_of(slot), SafeDType::f32, true, {}});
    if (content == Content::codes && has_scales(setup.state_formats.of(slot)))
      buffers_.push_back(
          {std::string(name(scales_of(slot))), scales_of(slot), SafeDType::f32, true, {}});
  }
  if (traits_of(setup.hyper.rule).trust_ratio)
    buffers_.push_back({"trust_ratio", BufferId::trust_ratio, SafeDType::f32, false, {tensors}});
  if (traits_of(setup.hyper.rule).matrices)
    buffers_.push_back({"orthogonal", BufferId::orthogonal, SafeDType::f32, true, {}});
  buffers_.push_back({"master", BufferId::master, SafeDType::f32, true, {}});
  buffers_.push_back({"applied_steps", BufferId::applied_steps, SafeDType::u64, false, {}});
  if (per_tensor)
    buffers_.push_back({"tensor_steps", BufferId::tensor_steps, SafeDType::u64, false, {tensors}});
  if (has_scales(setup.param_dtype)) add_scales(setup);
  buffers_.push_back({"param", BufferId::param_full, safe_dtype(setup.param_dtype), true, {}});
  if (has_scales(setup.param_dtype) && setup.scaling.columnwise)
    buffers_.push_back(
        {"param_columns", BufferId::param_columns, safe_dtype(setup.param_dtype), true, {}});
}

void DumpPlan::add_scales(const StepSettings& settings) {
  const auto add = [&](BufferId id, SafeDType dtype, const TensorBlocks& blocks,
                       std::vector<std::int64_t> of_block = {}) {
    buffers_.push_back(
        {std::string(name(id)), id, dtype, true, std::move(of_block), -1, false, &blocks});
  };
  blocks_ = blocks_of(settings);
  add(BufferId::amax, SafeDType::u32, blocks_);
  if (keeps_history(settings.scaling))
    add(BufferId::amax_history, SafeDType::u32, blocks_, {settings.scaling.history});
  add(BufferId::param_scale, SafeDType::f32, blocks_);
  add(BufferId::param_scale_inv, SafeDType::f32, blocks_);
  transposed_ = !has_own_columns(settings.scaling);
  if (transposed_) return;
  column_blocks_ = column_blocks_of(settings);
  add(BufferId::column_amax, SafeDType::u32, column_blocks_);
  add(BufferId::column_scale, SafeDType::f32, column_blocks_);
  add(BufferId::column_scale_inv, SafeDType::f32, column_blocks_);
}

SafeTensorSpec DumpPlan::spec_of(const DumpBuffer& buffer, std::int64_t step,
                                 std::int64_t parameter) const {
  const TensorSlot& slot = layout_.tensors()[parameter];
  SafeTensorSpec spec = {dump_name(buffer.name, step, slot.name), buffer.dtype, slot.shape};
  if (buffer.id == BufferId::param_columns && transposed_)
    spec.shape = {blocks_.grid(parameter).columns, blocks_.grid(parameter).rows};
  if (is_state_scale(buffer.id)) spec.shape = {num_state_blocks(slot)};
  if (buffer.blocks == nullptr) return spec;
  const BlockGrid& grid = buffer.blocks->grid(parameter);
  spec.shape = {grid.blocks_down(), grid.blocks_across()};
  spec.shape.insert(spec.shape.end(), buffer.shape.begin(), buffer.shape.end());
  return spec;
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
        const auto parameter = static_cast<std::int64_t>(i);
        all.push_back({spec_of(buffer, step, parameter), b, step, parameter});
      }
    }
  }
  return all;
}

std::vector<std::byte> DumpPlan::bytes_of(const DumpTensor& tensor,
                                          const reference::DenseOptimizer& optimizer) const {
  const DumpBuffer& buffer = buffers_[tensor.buffer];
  const reference::DenseStep& last = optimizer.last_step();
  if (buffer.id == BufferId::grad && last.skipped) {
    constexpr float none = std::numeric_limits<float>::quiet_NaN();
    return bytes_of_floats(std::vector<float>(layout_.tensors()[tensor.parameter].numel, none));
  }
  if (buffer.per_parameter) {
    TensorView view = optimizer.buffer(buffer.id);
    std::vector<float>
        values;  // of state that is not kept in fp32: as the next step reads it (R25)
    if (is_state(buffer.id) && view.dtype != DType::fp32) {
      values = optimizer.values(buffer.id);
      view = {values.data(), DType::fp32, static_cast<std::int64_t>(values.size())};
    }
    const Span<const std::byte> part = part_of(tensor, view);
    return canonical_bytes({const_cast<std::byte*>(part.data()), view.dtype,
                            std::ssize(part) / num_bytes(view.dtype)});
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
      return bytes_of_floats(last.grad_norm);
    case BufferId::clip_coef:
      return bytes_of_floats(last.clip_coef);
    case BufferId::trust_ratio:
      return bytes_of_floats(last.trust_ratio);
    case BufferId::tensor_steps:
      return bytes_of_values(optimizer.tensor_steps());
    default:
      return bytes_of_value(static_cast<std::uint64_t>(optimizer.applied_steps()));
  }
}

Span<const std::byte> DumpPlan::part_of(const DumpTensor& tensor, const TensorView& whole) const {
  const TensorSlot& slot = layout_.tensors()[tensor.parameter];
  std::int64_t first = slot.begin, count = slot.numel;
  if (is_state_scale(buffers_[tensor.buffer].id)) {
    first = slot.begin / state_block_numel;
    count = num_state_blocks(slot);
  }
  if (const TensorBlocks* const blocks = buffers_[tensor.buffer].blocks) {
    const std::int64_t all = blocks->num_blocks(), each = all == 0 ? 0 : whole.numel / all;
    first = blocks->first_block(tensor.parameter) * each;
    count = blocks->grid(tensor.parameter).num_blocks() * each;
  }
  const std::int64_t width = num_bytes(whole.dtype);
  return {static_cast<const std::byte*>(whole.data) + first * width,
          static_cast<std::size_t>(count * width)};
}

std::string dump_name(const std::string& buffer, std::int64_t step, const std::string& parameter) {
  return buffer + "." + std::to_string(step) + (parameter.empty() ? "" : "." + parameter);
}

}  // namespace zeroproof::verification
