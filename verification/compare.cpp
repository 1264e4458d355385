#include "verification/compare.hpp"

#include <bit>
#include <cstdio>
#include <cstring>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"

namespace zeroproof::verification {
namespace {

/// Largest bit pattern that is not NaN once the sign is gone; all ones for integer types, which have no NaN.
template <class Bits>
struct NanRule {
  Bits magnitude;
  Bits infinity;

  bool is_nan(Bits bits) const { return (bits & magnitude) > infinity; }
};

NanRule<std::uint64_t> nan_rule(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return {0x7FFFFFFFU, 0x7F800000U};
    case DType::bf16:
      return {0x7FFF, 0x7F80};
    case DType::fp16:
      return {0x7FFF, 0x7C00};
    case DType::fp64:
      return {0x7FFFFFFFFFFFFFFFU, 0x7FF0000000000000U};
    case DType::e4m3:
      return {0x7F, 0x7E};
    case DType::e5m2:
      return {0x7F, 0x7C};
    case DType::u32:
    case DType::u64:
      break;
  }
  return {0, 0};
}

template <class Bits>
Comparison compare_elements(const void* reference, const void* candidate, std::int64_t begin,
                            std::int64_t numel, const NanRule<std::uint64_t>& wide) {
  const NanRule<Bits> rule{static_cast<Bits>(wide.magnitude), static_cast<Bits>(wide.infinity)};
  const Bits* a = static_cast<const Bits*>(reference) + begin;
  const Bits* b = static_cast<const Bits*>(candidate) + begin;
  Comparison result;
  result.compared = numel;
  if (numel == 0 || std::memcmp(a, b, static_cast<std::size_t>(numel) * sizeof(Bits)) == 0) return result;
  for (std::int64_t i = 0; i < numel; ++i) {
    if (a[i] == b[i] || (rule.is_nan(a[i]) && rule.is_nan(b[i]))) continue;
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
}

Comparison compare(const TensorView& reference, const TensorView& candidate, std::int64_t begin,
                   std::int64_t numel) {
  ZP_CHECK(reference.dtype == candidate.dtype, ErrorCode::invalid_argument,
           "the reference buffer is " + std::string(name(reference.dtype)) + " and the candidate's " +
               std::string(name(candidate.dtype)),
           "bits of two formats cannot be compared", "expose buffers of the same dtype");
  ZP_CHECK(begin >= 0 && numel >= 0 && begin + numel <= reference.numel && begin + numel <= candidate.numel,
           ErrorCode::invalid_argument,
           "elements " + std::to_string(begin) + " to " + std::to_string(begin + numel) +
               " are asked for but the buffers have " + std::to_string(reference.numel) + " and " +
               std::to_string(candidate.numel),
           "the comparison would read past the end", "expose buffers of the same range");
  const NanRule<std::uint64_t> rule = nan_rule(reference.dtype);
  switch (num_bytes(reference.dtype)) {
    case 1:
      return compare_elements<std::uint8_t>(reference.data, candidate.data, begin, numel, rule);
    case 2:
      return compare_elements<std::uint16_t>(reference.data, candidate.data, begin, numel, rule);
    case 4:
      return compare_elements<std::uint32_t>(reference.data, candidate.data, begin, numel, rule);
    default:
      return compare_elements<std::uint64_t>(reference.data, candidate.data, begin, numel, rule);
  }
}

std::uint64_t element_bits(const TensorView& view, std::int64_t index) {
  switch (num_bytes(view.dtype)) {
    case 1:
      return static_cast<const std::uint8_t*>(view.data)[index];
    case 2:
      return static_cast<const std::uint16_t*>(view.data)[index];
    case 4:
      return static_cast<const std::uint32_t*>(view.data)[index];
    default:
      return static_cast<const std::uint64_t*>(view.data)[index];
  }
}

bool is_nan_bits(DType dtype, std::uint64_t bits) {
  return dtype != DType::u32 && dtype != DType::u64 && nan_rule(dtype).is_nan(bits);
}

std::string show_bits(DType dtype, std::uint64_t bits) {
  char buffer[80];
  const auto half = static_cast<std::uint16_t>(bits);
  switch (dtype) {
    case DType::bf16:
      std::snprintf(buffer, sizeof(buffer), "0x%04x (%.4g)", half, static_cast<double>(to_float(bf16{half})));
      break;
    case DType::e4m3:
    case DType::e5m2: {
      const auto byte = static_cast<std::uint8_t>(bits);
      const float value = dtype == DType::e4m3 ? to_float(e4m3{byte}) : to_float(e5m2{byte});
      std::snprintf(buffer, sizeof(buffer), "0x%02x (%.4g)", byte, static_cast<double>(value));
      break;
    }
    case DType::fp16:
      std::snprintf(buffer, sizeof(buffer), "0x%04x (%.5g)", half, static_cast<double>(to_float(fp16{half})));
      break;
    case DType::fp32:
      std::snprintf(buffer, sizeof(buffer), "0x%08x (%.9g)", static_cast<unsigned>(bits),
                    static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
      break;
    case DType::fp64:
      std::snprintf(buffer, sizeof(buffer), "0x%016llx (%.17g)", static_cast<unsigned long long>(bits),
                    std::bit_cast<double>(bits));
      break;
    default:
      std::snprintf(buffer, sizeof(buffer), "0x%llx (%llu)", static_cast<unsigned long long>(bits),
                    static_cast<unsigned long long>(bits));
  }
  return buffer;
}

}  // namespace zeroproof::verification
