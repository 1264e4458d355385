#include "cuda/reduce/sources/host_grad_source.hpp"

#include <utility>

#include "cuda/reduce/sources/grad_element.cuh"

namespace zeroproof::cuda {

HostGradSource::HostGradSource(const GradFormula& formula, const FlatLayout& layout, DType dtype,
                               std::function<std::int32_t()> log2_scale)
    : formula_(formula), log2_scale_(std::move(log2_scale)), leaf_(layout.padded_numel(), dtype) {}

TensorView HostGradSource::micro_batch_grad(std::int64_t micro_batch) {
  const device::GradElements elements{
      formula_.seed, leaf_stream + static_cast<std::uint32_t>(micro_batch),
      static_cast<std::uint32_t>(step_), formula_.overflow(step_, micro_batch)};
  const float scale = device::GradElements::power_of_two(log2_scale_());
  visit_param_format(leaf_.dtype(), [&](auto format) {
    using T = typename decltype(format)::type;
    T* const to = static_cast<T*>(leaf_.data());
    for (std::int64_t i = 0; i < leaf_.numel(); ++i)
      to[i] = device::leaf_as<T>(elements.at(i, scale));
  });
  return leaf_.view();
}

}  // namespace zeroproof::cuda
