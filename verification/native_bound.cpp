#include "verification/native_bound.hpp"

#include <bit>
#include <cmath>

#include "common/base/float_formats.hpp"

namespace zeroproof::verification {
namespace {

double element(const TensorView& leaf, std::int64_t index) {
  switch (leaf.dtype) {
    case DType::bf16:
      return static_cast<double>(to_float(static_cast<const bf16*>(leaf.data)[index]));
    case DType::fp16:
      return static_cast<double>(to_float(static_cast<const fp16*>(leaf.data)[index]));
    default:
      return static_cast<double>(static_cast<const float*>(leaf.data)[index]);
  }
}

/// The fp64 sums of up to 2^20 fp32 values are themselves off by at most 2^-32 of the magnitudes; this covers it.
constexpr double oracle_slack = 0x1p-32;

bool within_bound(float sum, double exact, double magnitudes, std::int64_t terms) {
  if (!std::isfinite(exact)) return !std::isfinite(sum);
  if (magnitudes >= 0x1p127) return true;
  const double nu = static_cast<double>(terms - 1) * 0x1p-24;
  const double bound = (nu / (1 - nu) + oracle_slack) * magnitudes;
  return std::fabs(static_cast<double>(sum) - exact) <= bound;  // false for NaN
}

}  // namespace

Comparison compare_native(const TensorView& sums, const std::vector<Piece>& pieces, LeafProvider& leaves,
                          std::int64_t micro_batches) {
  Comparison result;
  for (const Piece& piece : pieces) {
    const auto numel = static_cast<std::size_t>(piece.numel);
    std::vector<double> exact(numel), magnitudes(numel);
    for (std::int64_t j = 0; j < micro_batches; ++j) {
      const TensorView leaf = leaves.leaf(j).values.view();
      for (std::size_t i = 0; i < numel; ++i) {
        const double x = element(leaf, piece.global_begin + static_cast<std::int64_t>(i));
        exact[i] += x;
        magnitudes[i] += std::fabs(x);
      }
    }
    for (std::size_t i = 0; i < numel; ++i) {
      const std::int64_t index = piece.local_begin + static_cast<std::int64_t>(i);
      const float sum = static_cast<const float*>(sums.data)[index];
      ++result.compared;
      if (within_bound(sum, exact[i], magnitudes[i], micro_batches)) continue;
      ++result.differing;
      const auto wanted = std::bit_cast<std::uint32_t>(static_cast<float>(exact[i]));
      if (!result.first) result.first = {index, wanted, std::bit_cast<std::uint32_t>(sum)};
      result.last_index = index;
    }
  }
  return result;
}

}  // namespace zeroproof::verification
