#include "cuda/reduce/sources/device_grad_source.hpp"

#include <cmath>
#include <utility>

#include "cuda/reduce/sources/fill_grad.hpp"

namespace zeroproof::cuda {
namespace {

std::int64_t length_of(double ns_per_element, std::int64_t numel) {
  return std::llround(ns_per_element * static_cast<double>(numel));
}

}  // namespace

DeviceGradSource::DeviceGradSource(const GradFormula& formula, const FlatLayout& layout,
                                   DType dtype, const std::int32_t* log2_scale, GradPace pace,
                                   std::vector<FlatRange> units)
    : formula_(formula),
      layout_(layout),
      dtype_(dtype),
      log2_scale_(log2_scale),
      pace_(pace),
      units_(std::move(units)),
      begun_(device_space(), 1) {
  for (std::size_t u = 0; u < units_.size(); ++u) visits_.push_back(static_cast<int>(u));
  device_space().wait();  // the memory belongs to another stream
}

/// The clock starts before the gradient is computed, and the stream continues when the time is
/// over.
void DeviceGradSource::fill(std::int64_t micro_batch, std::int64_t begin,
                            const TensorView& to) const {
  const std::int64_t length = length_of(pace_.backward_ns, to.numel);
  if (length > 0) device::enqueue_clock(begun_.data());
  device::enqueue_leaf(formula_, step_, micro_batch, begin, log2_scale_, to);
  if (length > 0) device::enqueue_until(begun_.data(), length);
}

TensorView DeviceGradSource::micro_batch_grad(std::int64_t micro_batch) {
  const std::int64_t numel = layout_.padded_numel();
  if (!leaf_) leaf_.emplace(device_space(), numel * num_bytes(dtype_));
  const TensorView leaf{leaf_->data(), dtype_, numel};
  fill(micro_batch, 0, leaf);
  return leaf;
}

void DeviceGradSource::forward(int unit, const TensorView&) {
  const std::int64_t length = length_of(pace_.forward_ns, units_[unit].numel());
  if (length == 0) return;
  device::enqueue_clock(begun_.data());
  device::enqueue_until(begun_.data(), length);
}

void DeviceGradSource::backward(int unit, const TensorView&, const TensorView& grad) {
  fill(micro_batch_, units_[unit].begin, grad);
}

std::int64_t DeviceGradSource::length() const {
  if (units_.empty()) return length_of(pace_.backward_ns, layout_.padded_numel());
  std::int64_t sum = 0;
  for (const FlatRange& unit : units_)
    sum += length_of(pace_.backward_ns, unit.numel()) + length_of(pace_.forward_ns, unit.numel());
  return sum;
}

}  // namespace zeroproof::cuda
