#include "verification/bench/product/leaves.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/base/parallel_for.hpp"
#include "cuda/host/cast.hpp"
#include "verification/bench/measure/format_span.hpp"
#include "verification/bench/measure/values.hpp"

namespace zeroproof::verification::bench {
namespace {

constexpr std::int64_t block = 16384;

void fill(std::int64_t leaf, std::int64_t begin, Span<float> out) { fill_leaf(leaf, begin, out); }

void fill(std::int64_t leaf, std::int64_t begin, Span<bf16> out) {
  std::array<float, block> wide;
  const Span<float> values(wide.data(), out.size());
  fill_leaf(leaf, begin, values);
  cuda::host::cast_to_bf16({}, values, out);
}

template <class T>
void fill_all(int threads, std::int64_t leaf, Span<T> out) {
  const std::int64_t count = numel(out);
  parallel_for(threads, (count + block - 1) / block, [&](std::int64_t i) {
    const std::int64_t begin = i * block;
    fill(leaf, begin,
         out.subspan(static_cast<std::size_t>(begin),
                     static_cast<std::size_t>(std::min(block, count - begin))));
  });
}

}  // namespace

Leaves::Leaves(const ProductCase& what, std::int64_t padded_numel)
    : numel_(padded_numel), dtype_(what.grad_dtype) {
  for (std::int64_t j = 0; j < what.num_leaves(); ++j) {
    if (dtype_ == DType::fp32) {
      fill_all(what.threads, j, wide_.emplace_back(numel_).span());
    } else {
      fill_all(what.threads, j, as_format<bf16>(narrow_.emplace_back(numel_)));
    }
  }
}

TensorView Leaves::view(std::int64_t micro_batch) const {
  const auto at = static_cast<std::size_t>(micro_batch);
  if (dtype_ == DType::fp32) return {wide_[at % wide_.size()].data(), dtype_, numel_};
  return {narrow_[at % narrow_.size()].data(), dtype_, numel_};
}

void Leaves::set_infinite(bool infinite) {
  const TensorView leaf = view(0);
  const auto width = static_cast<std::size_t>(num_bytes(dtype_));
  const std::uint32_t infinity = dtype_ == DType::fp32 ? 0x7F800000U : 0x7F80U;  // little-endian
  if (infinite) std::memcpy(&first_, leaf.data, width);
  std::memcpy(leaf.data, infinite ? &infinity : &first_, width);
}

}  // namespace zeroproof::verification::bench
