#include "verification/compare/judge/native_bound.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/base/float_formats.hpp"

namespace zeroproof::verification {
namespace {

/// The fp64 sums of up to 2^20 fp32 values have an error of at most 2^-32 of the magnitudes, which
/// this covers.
constexpr double oracle_slack = 0x1p-32;

bool within_bound(float sum, double exact, double magnitudes, std::int64_t terms) {
  if (!std::isfinite(exact)) return !std::isfinite(sum);
  if (magnitudes >= 0x1p127) return true;
  const double nu = static_cast<double>(terms - 1) * 0x1p-24;
  const double bound = (nu / (1 - nu) + oracle_slack) * magnitudes;
  return std::fabs(static_cast<double>(sum) - exact) <= bound;  // false for NaN
}

}  // namespace

Comparison compare_native(const TensorView& sums, const std::vector<Piece>& pieces,
                          GradProvider& leaves, std::int64_t micro_batches) {
  ExactSums exact;
  for (const Piece& piece : pieces) {
    const auto end = static_cast<std::size_t>(piece.global_begin + piece.numel);
    exact.sums.resize(std::max(exact.sums.size(), end));
    exact.magnitudes.resize(exact.sums.size());
  }
  exact.terms = micro_batches;
  for (std::int64_t j = 0; j < micro_batches; ++j) {
    const TensorView leaf = leaves.micro_batch_grad(j).view();
    for (const Piece& piece : pieces) {
      for (std::int64_t i = piece.global_begin; i < piece.global_begin + piece.numel; ++i) {
        exact.add(static_cast<std::size_t>(i), load_element(leaf, i));
      }
    }
  }
  return compare_native(sums, pieces, exact);
}

Comparison compare_native(const TensorView& sums, const std::vector<Piece>& pieces,
                          const ExactSums& exact) {
  Comparison result;
  for (const Piece& piece : pieces) {
    for (std::int64_t i = 0; i < piece.numel; ++i) {
      const auto global = static_cast<std::size_t>(piece.global_begin + i);
      const std::int64_t index = piece.local_begin + i;
      const float sum = static_cast<const float*>(sums.data)[index];
      ++result.compared;
      if (within_bound(sum, exact.sums[global], exact.magnitudes[global], exact.terms)) continue;
      ++result.differing;
      const auto wanted = std::bit_cast<std::uint32_t>(static_cast<float>(exact.sums[global]));
      if (!result.first) result.first = {index, wanted, std::bit_cast<std::uint32_t>(sum)};
      result.last_index = index;
    }
  }
  return result;
}

}  // namespace zeroproof::verification
