#include "common/base/canonical_copy.hpp"

#include <algorithm>

#include "common/base/dtype.hpp"

namespace zeroproof {

void copy_canonical(const TensorView& values, Span<std::byte> target) {
  visit_format(values.dtype, [&](auto format) {
    using Element = decltype(format);
    using Bits = typename Element::Bits;
    const auto* const from = static_cast<const Bits*>(values.data);
    auto* const to = reinterpret_cast<Bits*>(target.data());
    if constexpr (format.is_float) {
      for (std::int64_t i = 0; i < values.numel; ++i)
        to[i] = Element::is_nan(from[i]) ? Element::magnitude : from[i];
    } else {
      std::copy_n(from, values.numel, to);
    }
  });
}

void copy_canonical(Span<const float> values, Span<std::byte> target) {
  copy_canonical({const_cast<float*>(values.data()), DType::fp32, std::ssize(values)}, target);
}

}  // namespace zeroproof
