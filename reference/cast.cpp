#include "reference/cast.hpp"

#include <Eigen/Core>

#include "reference/checks.hpp"

namespace zeroproof::reference {

// Eigen's 16-bit types round to nearest even in integer arithmetic and keep subnormals, which is R8; the
// tests compare them with independent code. With F16C, which this project never switches on here, Eigen would
// use the processor's instruction, which obeys R8 too.

void cast_to_bf16(const Exec&, Span<const float> source, Span<bf16> target) {
  check_same_numel("cast_to_bf16", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    target[i].bits = Eigen::numext::bit_cast<std::uint16_t>(Eigen::bfloat16(source[i]));
  }
}

void cast_to_fp16(const Exec&, Span<const float> source, Span<fp16> target) {
  check_same_numel("cast_to_fp16", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    target[i].bits = Eigen::numext::bit_cast<std::uint16_t>(Eigen::half(source[i]));
  }
}

void widen_bf16(const Exec&, Span<const bf16> source, Span<float> target) {
  check_same_numel("widen_bf16", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    target[i] = static_cast<float>(Eigen::numext::bit_cast<Eigen::bfloat16>(source[i].bits));
  }
}

void widen_fp16(const Exec&, Span<const fp16> source, Span<float> target) {
  check_same_numel("widen_fp16", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    target[i] = static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(source[i].bits));
  }
}

}  // namespace zeroproof::reference
