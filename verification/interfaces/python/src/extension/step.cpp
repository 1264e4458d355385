#include "verification/interfaces/python/src/extension/step.hpp"

#include <algorithm>
#include <cstring>

#include "common/base/error.hpp"
#include "common/step/state_buffers.hpp"
#include "reference/operations.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/interfaces/python/src/extension/arrays.hpp"
#include "verification/interfaces/python/src/extension/reference_ops.hpp"
#include "verification/interfaces/python/src/extension/settings.hpp"
#include "verification/interfaces/python/src/extension/virtual_ranks.hpp"

namespace zeroproof::python {
namespace {

using Shapes = std::vector<std::vector<std::int64_t>>;

template <class Value>
Value word(const std::vector<std::pair<std::string, Value>>& table, const std::string& typed,
           const std::string& what) {
  std::vector<std::string> known;
  for (const auto& [name, value] : table) {
    if (name == typed) return value;
    known.push_back(name);
  }
  fail(ErrorCode::config, "'" + typed + "' is no " + what, "it is not one of the known values",
       suggestion(typed, known));
}

/// Copies one tensor's elements to its place; the padding between tensors is not changed.
void put(const py::Object& array, const std::string& name, DType dtype, const TensorSlot& slot,
         std::byte* to) {
  const HostArray from = host_array(array, name, dtype, false);
  const std::vector<std::int64_t> shape(from.shape.begin(), from.shape.end());
  ZP_CHECK(shape == slot.shape, ErrorCode::invalid_argument,
           name + " has another shape than the parameter",
           "element i of one belongs to element i of the other",
           "pass an array of the parameter's shape");
  if (from.view.numel == 0) return;
  std::memcpy(to + slot.begin * num_bytes(dtype), from.view.data,
              static_cast<std::size_t>(from.view.num_bytes()));
}

std::vector<float> flat(const py::List& arrays, const std::string& what, const FlatLayout& layout) {
  std::vector<float> values(layout.padded_numel());
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSlot& slot = layout.tensors()[i];
    put(arrays.at(i), what + " of " + slot.name, DType::fp32, slot,
        reinterpret_cast<std::byte*>(values.data()));
  }
  return values;
}

std::vector<std::byte> leaf_of(const py::List& arrays, std::size_t number, DType dtype,
                               const FlatLayout& layout) {
  const auto bytes = static_cast<std::size_t>(layout.padded_numel() * num_bytes(dtype));
  std::vector<std::byte> leaf(bytes, std::byte{0xFF});  // padding: must not be read
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSlot& slot = layout.tensors()[i];
    put(arrays.at(i), "the gradient of " + slot.name + " in micro-batch " + std::to_string(number),
        dtype, slot, leaf.data());
  }
  return leaf;
}

template <class T>
py::Object own_array(std::vector<T> values, DType dtype, const std::vector<std::size_t>& shape) {
  auto memory = std::make_shared<std::vector<T>>(std::move(values));
  const auto numel = static_cast<std::int64_t>(memory->size() * sizeof(T)) / num_bytes(dtype);
  const TensorView view = {memory->data(), dtype, numel};
  return numpy_array(view, shape, owner_of(std::move(memory)));
}

/// The tensors of an undistributed buffer, each a separate array.
template <class T>
py::List tensors_of(const std::vector<T>& values, DType dtype, const FlatLayout& layout) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  const std::int64_t width = num_bytes(dtype);
  py::List list;
  for (const TensorSlot& slot : layout.tensors()) {
    const auto* from = bytes + slot.begin * width;
    list.append(own_array(std::vector<std::byte>(from, from + slot.numel * width), dtype,
                          {slot.shape.begin(), slot.shape.end()}));
  }
  return list;
}

py::List taps_of(std::vector<ObservedBuffer> observers) {
  py::List list;
  for (ObservedBuffer& observer : observers) {
    py::List ranges;
    for (const FlatRange& range : observer.ranges)
      ranges.append(py::make_tuple(range.begin, range.end));
    const auto numel = observer.bytes.size() / static_cast<std::size_t>(num_bytes(observer.dtype));
    list.append(py::make_tuple(std::string(name(observer.phase)), observer.rank,
                               std::string(name(observer.buffer)), ranges,
                               std::string(name(observer.dtype)),
                               own_array(std::move(observer.bytes), observer.dtype, {numel})));
  }
  return list;
}

StepRequest request_of(const py::Dict& options) {
  const auto text = [&](const char* key) { return py::cast<std::string>(options.at(key)); };
  StepRequest request;
  request.world_size = py::cast<int>(options.at("world"));
  request.stage = py::cast<int>(options.at("stage"));
  request.bucket_numel = py::cast<std::int64_t>(options.at("bucket"));
  ZP_CHECK(request.world_size >= 1 && request.world_size <= 256, ErrorCode::invalid_argument,
           "world is " + std::to_string(request.world_size),
           "every rank is a thread of this process", "use 1 to 256 ranks");
  request.param_dtype = dtype_of(text("dtype"));
  ZP_CHECK(is_param_format(request.param_dtype), ErrorCode::invalid_argument,
           "parameters are " + std::string(name(request.param_dtype)),
           "zproof.step returns no scales for 8-bit parameters", "use fp32, bf16 or fp16");
  request.grad_dtype = dtype_of(text("grad_dtype"));
  request.hyper = hyper_of(text("rule"), py::cast<py::Dict>(options.at("settings")));
  request.hyper.norm = word<NormForm>({{"chunk1024", NormForm::chunk1024},
                                       {"exact", NormForm::exact},
                                       {"inf", NormForm::inf},
                                       {"one", NormForm::one}},
                                      text("norm"), "form of the norm");
  request.order = word<MicroBatchOrder>({{"by_stage", MicroBatchOrder::by_stage},
                                         {"contiguous", MicroBatchOrder::contiguous},
                                         {"strided", MicroBatchOrder::strided}},
                                        text("order"), "order of micro-batches");
  request.on_nonfinite =
      word<OnNonfinite>({{"skip", OnNonfinite::skip},
                         {"error", OnNonfinite::error},
                         {"propagate", OnNonfinite::propagate}},
                        text("on_nonfinite"), "policy for gradients that are not finite");
  request.grad_sum = word<GradSum>({{"tree", GradSum::tree}, {"binned", GradSum::binned}},
                                   text("grad_sum"), "gradient sum");
  request.scaler = scaler_of(py::cast<py::Dict>(options.at("scaler")));
  request.param_groups = param_groups_of(py::cast<py::List>(options.at("param_groups")));
  request.clip_groups = clip_groups_of(py::cast<py::List>(options.at("clip_groups")));
  request.adamw = py::cast<std::vector<std::string>>(options.at("adamw"));
  request.matrix_splits = matrix_splits_of(py::cast<py::List>(options.at("matrix_splits")));
  const bool matrices = traits_of(request.hyper.rule).matrices;
  ZP_CHECK(matrices || (request.adamw.empty() && request.matrix_splits.empty()), ErrorCode::config,
           "adamw or matrix_splits is given with the rule " + text("rule"),
           "only the rule muon updates matrices", "use the rule muon, or leave them out");
  request.observers = py::cast<bool>(options.at("taps"));
  return request;
}

LossScalerState scaler_state(const py::Dict& state, const LossScalerConfig& config) {
  if (!state.contains("scaler")) return reference::loss_scaler_init(config);
  const auto words = py::cast<py::Dict>(state.at("scaler"));
  return {py::cast<int>(words.at("log2_scale")), py::cast<int>(words.at("growth_tracker")),
          py::cast<int>(words.at("hysteresis_left"))};
}

/// A buffer that these settings do not keep would be ignored silently.
void require_kept(const py::Dict& state, const OptimizerHyper& hyper) {
  std::vector<std::string> known = {"applied_steps", "scaler"};
  for (const StateSlot slot : kept_slots(hyper)) known.emplace_back(name(slot));
  for (const auto& [key, value] : state.items()) {
    const auto buffer = py::cast<std::string>(key);
    ZP_CHECK(std::ranges::find(known, buffer) != known.end(), ErrorCode::config,
             "state has " + buffer, "a step with these settings keeps no such buffer",
             "leave it out, or set amsgrad or momentum");
  }
}

/// Buffers by name, each a list of tensors in the order of `names`; absent state is the initial
/// state.
py::Dict sharded_step(const std::vector<std::string>& names, const Shapes& shapes,
                      const py::List& master, const py::List& micro_batches, const py::Dict& state,
                      const py::Dict& options) {
  enter();
  const StepRequest request = request_of(options);
  StepInput input;
  for (std::size_t i = 0; i < names.size(); ++i) input.params.push_back({names[i], shapes[i]});
  const FlatLayout layout(input.params);
  input.master = flat(master, "the parameter", layout);
  require_kept(state, request.hyper);
  for (const StateSlot slot : kept_slots(request.hyper)) {
    const std::string buffer(name(slot));
    input.kept[slot] = state.contains(buffer)
                           ? flat(py::cast<py::List>(state.at(buffer)), buffer, layout)
                           : std::vector<float>(layout.padded_numel());
  }
  for (const py::Object& leaf : micro_batches.items())
    input.leaves.push_back(
        leaf_of(py::cast<py::List>(leaf), input.leaves.size(), request.grad_dtype, layout));
  if (state.contains("applied_steps"))
    input.applied_steps = py::cast<std::int64_t>(state.at("applied_steps"));
  input.scaler = scaler_state(state, request.scaler);

  StepOutput output;
  {
    const py::GilRelease others_may_run;
    output = step_on_virtual_ranks(layout, input, request);
  }
  py::Dict buffers;
  for (const auto& [id, values] : output.kept)
    buffers.set(std::string(name(id)), tensors_of(values, DType::fp32, layout));
  py::List offsets;
  for (const TensorSlot& slot : layout.tensors()) offsets.append(slot.begin);
  py::Dict scaler;
  scaler.set("log2_scale", output.scaler.log2_scale);
  scaler.set("growth_tracker", output.scaler.growth_tracker);
  scaler.set("hysteresis_left", output.scaler.hysteresis_left);
  py::Dict result;
  result.set("skipped", output.skipped);
  result.set("grad_norm", output.grad_norm);
  result.set("clip_coef", output.clip_coef);
  result.set("applied_steps", output.applied_steps);
  result.set("scaler", scaler);
  result.set("buffers", buffers);
  result.set("param", tensors_of(output.param, request.param_dtype, layout));
  result.set("offsets", offsets);
  result.set("taps", taps_of(std::move(output.observers)));
  return result;
}

}  // namespace

void bind_step(py::Module& module) {
  module.def<&sharded_step>("sharded_step",
                            {"names", "shapes", "master", "micro_batches", "state", "options"});
}

}  // namespace zeroproof::python
