#include "verification/compare/compare.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"

namespace zeroproof::verification {
namespace {

template <class Format>
bool is_nan(typename Format::Bits bits) {
  if constexpr (Format::is_float) return Format::is_nan(bits);
  return false;
}

template <class Format>
Comparison compare_elements(const void* reference, const void* candidate, std::int64_t begin,
                            std::int64_t numel) {
  using Bits = typename Format::Bits;
  const Bits* a = static_cast<const Bits*>(reference) + begin;
  const Bits* b = static_cast<const Bits*>(candidate) + begin;
  Comparison result;
  result.compared = numel;
  if (numel == 0 || std::memcmp(a, b, static_cast<std::size_t>(numel) * sizeof(Bits)) == 0)
    return result;
  result.same_bits = false;
  for (std::int64_t i = 0; i < numel; ++i) {
    if (a[i] == b[i] || (is_nan<Format>(a[i]) && is_nan<Format>(b[i]))) continue;
    if (!result.first) result.first = Difference{begin + i, a[i], b[i]};
    result.last_index = begin + i;
    ++result.differing;
  }
  return result;
}

}  // namespace

void Comparison::add(const Comparison& later) {
  compared += later.compared;
  differing += later.differing;
  if (!first) first = later.first;
  if (later.last_index >= 0) last_index = later.last_index;
  same_bits = same_bits && later.same_bits;
}

Comparison compare(const TensorView& reference, const TensorView& candidate, std::int64_t begin,
                   std::int64_t numel) {
  ZP_CHECK(reference.dtype == candidate.dtype, ErrorCode::invalid_argument,
           "the reference buffer is " + std::string(name(reference.dtype)) +
               " and the candidate's " + std::string(name(candidate.dtype)),
           "only equal formats can be compared bitwise", "expose buffers of the same dtype");
  ZP_CHECK(begin >= 0 && numel >= 0 && begin + numel <= reference.numel &&
               begin + numel <= candidate.numel,
           ErrorCode::invalid_argument,
           "elements " + std::to_string(begin) + " to " + std::to_string(begin + numel) +
               " are requested but the buffers have " + std::to_string(reference.numel) + " and " +
               std::to_string(candidate.numel),
           "the comparison would read past the end", "expose buffers of the same range");
  return visit_format(reference.dtype, [&](auto format) {
    return compare_elements<decltype(format)>(reference.data, candidate.data, begin, numel);
  });
}

std::int64_t first_number(const TensorView& view, std::int64_t begin, std::int64_t end) {
  return visit_format(view.dtype, [&](auto format) {
    using Format = decltype(format);
    const auto* bits = static_cast<const typename Format::Bits*>(view.data);
    constexpr std::int64_t block =
        1024;  // differences are counted per block, without an early exit
    for (; begin < end; begin += block) {
      const std::int64_t until = std::min(begin + block, end);
      int numbers = 0;
      for (std::int64_t i = begin; i < until; ++i) numbers += is_nan<Format>(bits[i]) ? 0 : 1;
      if (numbers == 0) continue;
      while (is_nan<Format>(bits[begin])) ++begin;
      return begin;
    }
    return end;
  });
}

std::uint64_t element_bits(const TensorView& view, std::int64_t index) {
  return visit_format(view.dtype, [&](auto format) -> std::uint64_t {
    return static_cast<const typename decltype(format)::Bits*>(view.data)[index];
  });
}

bool is_nan_bits(DType dtype, std::uint64_t bits) {
  return visit_format(dtype, [&](auto format) {
    using Format = decltype(format);
    return is_nan<Format>(static_cast<typename Format::Bits>(bits));
  });
}

std::string show_bits(DType dtype, std::uint64_t bits) {
  return visit_format(dtype, [&](auto format) {
    using Format = decltype(format);
    char buffer[80];
    const auto word = static_cast<unsigned long long>(bits);
    if constexpr (!Format::is_float) {
      std::snprintf(buffer, sizeof(buffer), "0x%llx (%llu)", word, word);
    } else {
      const double value = value_of<Format>(bits);
      std::snprintf(buffer, sizeof(buffer), "0x%0*llx (%.*g)",
                    static_cast<int>(2 * sizeof(typename Format::Bits)), word, Format::digits,
                    value);
    }
    return std::string(buffer);
  });
}

}  // namespace zeroproof::verification
