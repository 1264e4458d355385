#include "verification/model/byte_gpt_tensors.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/base/error.hpp"
#include "common/base/philox.hpp"
#include "verification/model/random_streams.hpp"

namespace zeroproof::workload {
namespace {

constexpr int largest_extent = 1 << 20;  // products of two extents are then far below 2^63

void check_extent(const char* what, int extent) {
  ZP_CHECK(extent >= 1 && extent <= largest_extent, ErrorCode::invalid_argument,
           "the model has " + std::string(what) + " = " + std::to_string(extent),
           "every extent is in 1.." + std::to_string(largest_extent), "choose another shape");
}

float initial_deviation(const std::string& name, const ByteGptShape& shape) {
  if (shape.tied && name == "token_embedding.weight")
    return 0.02F;  // logits as small as those of a separate head
  // With 0.02 the first residual stream would be so short that a few optimizer steps of 0.002
  // reverse it, and the loss of an otherwise healthy run jumps.
  if (name.ends_with("embedding.weight")) return 0.2F;
  const bool residual =
      name.ends_with("attention.output.weight") || name.ends_with("mlp.down.weight");
  return residual ? static_cast<float>(0.02 / std::sqrt(2.0 * shape.layers)) : 0.02F;
}

}  // namespace

void check_shape(const ByteGptShape& shape) {
  check_extent("layers", shape.layers);
  check_extent("width", shape.width);
  check_extent("heads", shape.heads);
  check_extent("hidden", shape.hidden);
  check_extent("first_hidden", shape.hidden_of(0));
  check_extent("context", shape.context);
  ZP_CHECK(shape.width % shape.heads == 0, ErrorCode::invalid_argument,
           "the model has width " + std::to_string(shape.width) + " and " +
               std::to_string(shape.heads) + " heads",
           "heads divide the width equally", "choose a width divisible by heads");
}

std::vector<ParamSpec> byte_gpt_params(const ByteGptShape& shape) {
  check_shape(shape);
  const std::int64_t width = shape.width;
  std::vector<ParamSpec> params;
  const auto norm = [&](const std::string& name) {
    params.push_back({name + ".gain", {width}});
    if (!shape.swiglu) params.push_back({name + ".bias", {width}});
  };
  const auto linear = [&](const std::string& name, std::int64_t inputs, std::int64_t outputs) {
    params.push_back({name + ".weight", {inputs, outputs}});
    params.push_back({name + ".bias", {outputs}});
  };
  params.push_back({"token_embedding.weight", {vocabulary, width}});
  params.push_back({"position_embedding.weight", {shape.context, width}});
  for (int block = 0; block < shape.layers; ++block) {
    const std::string prefix = "block" + std::to_string(block) + ".";
    const std::int64_t hidden = shape.hidden_of(block);
    norm(prefix + "attention_norm");
    linear(prefix + "attention.query", width, width);
    linear(prefix + "attention.key", width, width);
    linear(prefix + "attention.value", width, width);
    linear(prefix + "attention.output", width, width);
    norm(prefix + "mlp_norm");
    if (shape.swiglu) linear(prefix + "mlp.gate", width, hidden);
    linear(prefix + "mlp.up", width, hidden);
    linear(prefix + "mlp.down", hidden, width);
  }
  norm("final_norm");
  if (!shape.tied) params.push_back({"head.weight", {width, vocabulary}});
  return params;
}

void check_layout(const std::vector<ParamSpec>& params, const FlatLayout& layout,
                  std::int64_t flat_numel) {
  const auto same = [](const TensorSlot& slot, const ParamSpec& param) {
    return slot.name == param.name && slot.shape == param.shape;
  };
  ZP_CHECK(std::ranges::equal(layout.tensors(), params, same), ErrorCode::invalid_argument,
           "the layout is not that of this model", "tensors would be read from wrong offsets",
           "make it from byte_gpt_params() of the same shape");
  ZP_CHECK(flat_numel == layout.padded_numel(), ErrorCode::invalid_argument,
           "a flat buffer has " + std::to_string(flat_numel) + " elements, the layout needs " +
               std::to_string(layout.padded_numel()),
           "tensors would be read past its end", "allocate layout.padded_numel() elements");
}

void check_layout(const ByteGptShape& shape, const FlatLayout& layout, std::int64_t flat_numel) {
  check_layout(byte_gpt_params(shape), layout, flat_numel);
}

void init_parameters(const ByteGptShape& shape, const FlatLayout& layout, std::uint64_t seed,
                     Span<float> flat) {
  check_layout(shape, layout, numel(flat));
  for (std::size_t k = 0; k < layout.tensors().size(); ++k) {
    const TensorSlot& slot = layout.tensors()[k];
    const Span<float> values = flat.subspan(slot.begin, slot.numel);
    if (slot.shape.size() == 1) {
      std::ranges::fill(values, slot.name.ends_with(".gain") ? 1.0F : 0.0F);
      continue;
    }
    const float standard_deviation = initial_deviation(slot.name, shape);
    const Philox philox(seed, first_init_stream + static_cast<std::uint32_t>(k));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = philox.bell(i) * standard_deviation;
  }
}

}  // namespace zeroproof::workload
