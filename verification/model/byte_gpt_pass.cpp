#include "verification/model/byte_gpt_pass.hpp"

#include <numeric>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof::workload {
namespace {

ByteGptShape filled(ByteGptShape shape, Span<const std::uint8_t> tokens) {
  ZP_CHECK(numel(tokens) >= 2 && numel(tokens) <= shape.context + 1, ErrorCode::invalid_argument,
           "a micro-batch has " + std::to_string(tokens.size()) + " tokens, the model takes 2 to " +
               std::to_string(shape.context + 1),
           "each position predicts the byte after it", "pass at most context + 1 bytes");
  shape.context = static_cast<int>(numel(tokens)) - 1;
  return shape;
}

}  // namespace

std::vector<FlatRange> byte_gpt_units(const ByteGptShape& shape, const FlatLayout& layout) {
  const auto begin = [&](int tensor) { return layout.tensors()[tensor].begin; };
  std::vector<FlatRange> units = {{0, begin(block_tensor(shape, 0, attention_norm))}};
  for (int block = 0; block < shape.layers; ++block) {
    // One past the last block is the final norm.
    units.push_back({units.back().end, begin(block_tensor(shape, block + 1, attention_norm))});
  }
  units.push_back({units.back().end, layout.padded_numel()});
  return units;
}

std::vector<int> byte_gpt_visits(const ByteGptShape& shape) {
  std::vector<int> visits(static_cast<std::size_t>(shape.layers) + 2);
  std::iota(visits.begin(), visits.end(), 0);
  if (shape.tied) visits.push_back(0);
  return visits;
}

template <class Real>
BytePass<Real>::BytePass(const ByteGptShape& shape, const ByteGptPlace& place,
                         Span<const std::uint8_t> tokens, InstructionSet set)
    : set_(set),
      shape_(filled(shape, tokens)),
      place_(place),
      tokens_(tokens),
      residual_(place.own_rows(shape_.context).numel(), shape.width),
      d_residual_(place.own_rows(shape_.context).numel(), shape.width),
      blocks_(static_cast<std::size_t>(shape.layers)) {}

template <class Real>
void BytePass<Real>::forward(std::size_t visit, const Tensors<const Real>& params) {
  const Pass<Real> pass = pass_with(params);
  const Matrix<Real> x = residual_.view();
  const std::size_t last_norm = blocks_.size() + 1;
  if (visit == 0) {
    embeddings_forward<Real>(pass, tokens_, x);
  } else if (visit < last_norm) {
    std::optional<BlockSaved<Real>>& saved = blocks_[visit - 1];
    saved.emplace(pass, static_cast<int>(visit) - 1);
    block_forward<Real>(pass, static_cast<int>(visit) - 1, *saved, x);
  } else if (visit == last_norm) {
    head_.emplace(pass);
    final_norm_forward<Real>(pass, x, *head_);
  }
  // The head shares a unit with the norm, or has a separate visit.
  if (visit == last_norm + (shape_.tied ? 1 : 0)) loss_ = head_forward<Real>(pass, tokens_, *head_);
}

template <class Real>
void BytePass<Real>::backward(std::size_t visit, const Tensors<const Real>& params, Real loss_scale,
                              const Tensors<Real>& grads) {
  const Pass<Real> pass = pass_with(params);
  const Matrix<Real> dx = d_residual_.view();
  const std::size_t last_norm = blocks_.size() + 1;
  if (visit == last_norm + (shape_.tied ? 1 : 0)) {
    head_backward<Real>(pass, tokens_, loss_scale, grads, *head_);
  }
  if (visit == last_norm) {
    final_norm_backward<Real>(pass, grads, *head_, dx);
    head_.reset();
  } else if (visit == 0) {
    embeddings_backward<Real>(pass, tokens_, dx, grads, shape_.tied);
  } else if (visit < last_norm) {
    block_backward<Real>(pass, static_cast<int>(visit) - 1, *blocks_[visit - 1], grads, dx);
    blocks_[visit - 1].reset();
  }
}

template class BytePass<float>;
template class BytePass<double>;

}  // namespace zeroproof::workload
