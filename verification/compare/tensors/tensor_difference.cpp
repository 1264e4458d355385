#include "verification/compare/tensors/tensor_difference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "common/base/float_formats.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::int64_t bytes_at_once = std::int64_t{1} << 20;

/// Elements of a float format.
template <class Format>
struct Floats {
  using Bits = typename Format::Bits;
  static bool same(Bits a, Bits b) { return a == b || (Format::is_nan(a) && Format::is_nan(b)); }
  static double distance(Bits a, Bits b) {
    return std::abs(value_of<Format>(a) - value_of<Format>(b));  // NaN if one of them is
  }
  static double size(Bits a) { return std::abs(value_of<Format>(a)); }
};

/// Integer elements: distances are exact before the conversion to double.
template <class T>
struct Wholes {
  using Bits = T;
  static bool same(T a, T b) { return a == b; }
  static double distance(T a, T b) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    const auto low = static_cast<std::uint64_t>(static_cast<Wide>(std::min(a, b)));
    return static_cast<double>(static_cast<std::uint64_t>(static_cast<Wide>(std::max(a, b))) - low);
  }
  static double size(T a) { return std::abs(static_cast<double>(a)); }
};

double relative(double distance, double a, double b) {
  if (distance == 0 || !std::isfinite(distance)) return distance;  // two zeros; infinite, or NaN
  return distance / std::max(a, b);
}

template <class F>
void visit_elements(SafeDType dtype, F&& f) {
  if (const std::optional<DType> known = buffer_dtype(dtype)) {
    visit_format(*known, [&](auto format) {
      using Format = decltype(format);
      if constexpr (Format::is_float) {
        f(Floats<Format>{});
      } else {
        f(Wholes<typename Format::Bits>{});
      }
    });
    return;
  }
  switch (dtype) {
    case SafeDType::i8:
      return f(Wholes<std::int8_t>{});
    case SafeDType::i16:
      return f(Wholes<std::int16_t>{});
    case SafeDType::i32:
      return f(Wholes<std::int32_t>{});
    case SafeDType::i64:
      return f(Wholes<std::int64_t>{});
    default:
      return f(Wholes<std::uint8_t>{});  // U8, BOOL
  }
}

/// A range of bytes of both tensors, from the element `begin`.
template <class Elements>
void scan(Span<const std::byte> first, Span<const std::byte> second, std::int64_t begin,
          TensorDifference& result) {
  using Bits = typename Elements::Bits;
  Comparison part;
  part.compared = static_cast<std::int64_t>(first.size() / sizeof(Bits));
  part.same_bits = std::memcmp(first.data(), second.data(), first.size()) == 0;
  for (std::int64_t i = 0; !part.same_bits && i < part.compared; ++i) {
    Bits a, b;
    std::memcpy(&a, first.data() + static_cast<std::size_t>(i) * sizeof(Bits), sizeof(Bits));
    std::memcpy(&b, second.data() + static_cast<std::size_t>(i) * sizeof(Bits), sizeof(Bits));
    if (Elements::same(a, b)) continue;
    using Word = std::make_unsigned_t<Bits>;
    if (!part.first) part.first = Difference{begin + i, static_cast<Word>(a), static_cast<Word>(b)};
    part.last_index = begin + i;
    ++part.differing;
    const double distance = Elements::distance(a, b);
    result.absolute.take(distance, begin + i);
    result.relative.take(relative(distance, Elements::size(a), Elements::size(b)), begin + i);
  }
  result.bits.add(part);
}

void count_ulps(SafeDType dtype, Span<std::byte> first, Span<std::byte> second, std::int64_t begin,
                bool differ, UlpHistogram& ulps) {
  if (!has_ulps(dtype)) return;
  const DType format = *buffer_dtype(dtype);
  const auto numel = static_cast<std::int64_t>(first.size()) / num_bytes(format);
  if (!differ) {
    ulps.counts[0] += numel;
    return;
  }
  ulps.add({first.data(), format, numel}, {second.data(), format, numel}, begin);
}

}  // namespace

bool has_ulps(SafeDType dtype) {
  const std::optional<DType> known = buffer_dtype(dtype);
  return known && visit_format(*known, [](auto format) { return decltype(format)::is_float; });
}

bool Greatest::take(double other, std::int64_t at) {
  if (index >= 0 && (std::isnan(value) || !(std::isnan(other) || other > value))) return false;
  value = other;
  index = at;
  return true;
}

TensorDifference compare_tensors(const std::string& name, const SafetensorsReader& first,
                                 const SafeTensor* in_first, const SafetensorsReader& second,
                                 const SafeTensor* in_second) {
  TensorDifference result;
  result.name = name;
  if (in_first != nullptr) result.first = *in_first;
  if (in_second != nullptr) result.second = *in_second;
  if (in_first == nullptr || in_second == nullptr) {
    result.match = in_first == nullptr ? TensorMatch::only_second : TensorMatch::only_first;
  } else if (in_first->dtype != in_second->dtype) {
    result.match = TensorMatch::other_dtype;
  } else if (in_first->shape != in_second->shape) {
    result.match = TensorMatch::other_shape;
  }
  if (result.match != TensorMatch::compared) return result;

  const std::int64_t bytes = in_first->num_bytes();
  const std::int64_t width = num_bytes(in_first->dtype);
  std::vector<std::byte> a(std::min(bytes, bytes_at_once)), b(a.size());
  for (std::int64_t at = 0; at < bytes; at += bytes_at_once) {
    const auto size = static_cast<std::size_t>(std::min(bytes - at, bytes_at_once));
    const Span<std::byte> left = Span<std::byte>(a).first(size),
                          right = Span<std::byte>(b).first(size);
    first.read(*in_first, at, left);
    second.read(*in_second, at, right);
    const std::int64_t before = result.bits.differing;
    visit_elements(in_first->dtype, [&](auto elements) {
      scan<decltype(elements)>(left, right, at / width, result);
    });
    count_ulps(in_first->dtype, left, right, at / width, result.bits.differing > before,
               result.ulps);
  }
  return result;
}

}  // namespace zeroproof::verification
