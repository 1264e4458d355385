#pragma once
// Exact sums allow at most 2^32 - 1 deposits between two normalisations (R12).
//
// Operations that go in pieces, as declared in operations.hpp but with pieces of any length that is
// a multiple of 16, so that a test can have several.

#include <algorithm>
#include <cstdint>

#include "common/contracts/operations.hpp"

namespace zeroproof::cuda::device {

/// Elements of one launch: half of the allowed number, and a power of two, so that every piece
/// starts at a pack boundary of the whole buffer.
inline constexpr std::int64_t norm_piece_numel = std::int64_t{1} << 31;

/// Calls body(first, numel) for every piece of [0, numel) in order.
template <class Body>
void for_each_norm_piece(std::int64_t numel, std::int64_t piece_numel, const Body& body) {
  for (std::int64_t first = 0; first < numel; first += piece_numel) {
    body(first, std::min(piece_numel, numel - first));
  }
}

void grad_norm_exact_in_pieces(std::int64_t piece_numel, Span<const float> grad, NormLimbs& limbs);
void grad_abs_in_pieces(std::int64_t piece_numel, Span<const float> grad, NormLimbs& limbs);
void lamb_norms_in_pieces(std::int64_t piece_numel, const LambOptions& options,
                          const StepScalars& scalars, Span<const float> grad,
                          Span<const float> master, Span<const float> exp_avg,
                          Span<const float> exp_avg_sq, TrustNorms& norms);
void clip_errors_in_pieces(std::int64_t piece_numel, const FakeQuantization& options,
                           std::int64_t first, Span<const float> values,
                           Span<const std::uint32_t> amax, Span<NormLimbs> errors);

}  // namespace zeroproof::cuda::device
