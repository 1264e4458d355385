#pragma once
// Small models and texts for the tests of byte_gpt.

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "common/base/philox.hpp"
#include "verification/model/byte_gpt.hpp"

namespace zeroproof::workload {

inline constexpr std::string_view sentence =
    "the quick brown fox jumps over the lazy dog, again and again and again and again.";

inline Span<const std::uint8_t> tokens_of(const ByteGptShape& shape, std::size_t first = 0) {
  return Span<const std::uint8_t>(reinterpret_cast<const std::uint8_t*>(sentence.data()),
                                  sentence.size())
      .subspan(first, static_cast<std::size_t>(shape.context) + 1);
}

/// A shape with its layout and parameters.
template <class Real>
struct Model {
  explicit Model(const ByteGptShape& s)
      : shape(s), layout(byte_gpt_params(s)), params(size()), grad(size()) {}

  std::size_t size() const { return static_cast<std::size_t>(layout.padded_numel()); }
  double loss() const { return byte_gpt_loss<Real>(shape, layout, params, tokens_of(shape)); }
  double loss_and_grad(Real loss_scale = 1, InstructionSet set = best_instruction_set()) {
    return byte_gpt_loss_and_grad<Real>(shape, layout, params, tokens_of(shape), loss_scale, grad,
                                        set);
  }

  ByteGptShape shape;
  FlatLayout layout;
  std::vector<Real> params;
  std::vector<Real> grad;
};

/// Parameters of size 1/2, gains around 1: they give larger gradients than the initial parameters.
template <class Real>
Model<Real> rough_model(const ByteGptShape& shape) {
  Model<Real> model(shape);
  for (const TensorSlot& slot : model.layout.tensors()) {
    const Real center = slot.name.ends_with(".gain") ? Real{1} : Real{0};
    for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
      model.params[i] = center + Real{0.5} * Philox(3).bell(static_cast<std::uint64_t>(i));
    }
  }
  return model;
}

inline Model<float> initial_model(const ByteGptShape& shape) {
  Model<float> model(shape);
  init_parameters(shape, model.layout, 1, model.params);
  return model;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace zeroproof::workload
