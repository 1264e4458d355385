#pragma once

#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// The columns of a vocabulary that one of 1, 2, 4 or 8 ranks has: blocks `first` to below `first + count` of the 8 of
/// R18, columns floor(size * first / 8) up to, not including, floor(size * (first + count) / 8).
struct VocabularyPart {
  std::int64_t size = 0;  ///< of the whole vocabulary, >= 1
  int first = 0;          ///< a multiple of count
  int count = 8;          ///< 1, 2, 4 or 8

  std::int64_t begin() const { return size * first / 8; }
  std::int64_t end() const { return size * (first + count) / 8; }
};

struct CrossEntropyOptions {
  double label_smoothing = 0;  ///< in [0, 1); above 0 only with at least two columns
  float z_weight = 0;          ///< finite, >= 0
};

/// The largest logit of each row, as an integer whose maximum ranks may take (R10).
///
/// Shapes   logits: [rows, width], width = part.end() - part.begin(), rows >= 0. largest: [rows]; rows is its numel.
/// Order    none: largest is the maximum over the row of key(x), 0 without columns, where
///            key(x) = 2^32 - 1 for a NaN;  bits + 2^31 if the sign bit of x is 0;  2^32 - 1 - bits if it is 1
/// Exact    integer.
/// Errors   invalid_argument if part is not as described, or logits is not [rows, width].
/// Contract R10, R14. Source: [Fusion:cross_entropy].
using CrossEntropyMaxFn = void(const Exec&, const VocabularyPart& part, Span<const float> logits,
                               Span<std::uint32_t> largest);

/// One rank's part of the loss of each row.
///
/// Shapes   logits: [rows, width] as CrossEntropyMaxFn. largest: [rows], the maximum over all ranks. targets: [rows].
///          exp_sum, shifted_sum: [rows]. target_bits: [rows].
/// Order    one fp32 rounding per operation, for one row; m is the number whose key is largest (NaN for 2^32 - 1); j
///          numbers the columns of the whole vocabulary:
///            d_j = x_j - m;  e_j = exp(d_j), which is ElementaryExpFn
///            exp_sum and shifted_sum = the sums of the e_j and of the d_j over the part's blocks of R18, folded as far
///            as they go
///            target_bits = the bits of d_target (0x7FFFFFFF for a NaN, R9) if that column is in the part, otherwise 0
/// Exact    ordered.
/// Errors   as CrossEntropyMaxFn; and if another view is not [rows].
/// Contract R2, R18, R23. Source: [Fusion:cross_entropy].
using CrossEntropySumFn = void(const Exec&, const VocabularyPart& part, Span<const float> logits,
                               Span<const std::uint32_t> largest, Span<const std::int32_t> targets,
                               Span<float> exp_sum, Span<float> shifted_sum,
                               Span<std::uint32_t> target_bits);

/// The loss of each row, from the parts of all ranks.
///
/// Shapes   largest, targets: [rows]. exp_sums, shifted_sums: [ranks, rows], rank after rank, ranks = 1, 2, 4 or 8.
///          target_bits: [rows], those of all ranks combined by OR. loss, total, log_total: [rows], the last two for
///          the backward pass.
/// Order    one fp32 rounding per operation, for one row; size columns, m as CrossEntropySumFn, log is ElementaryLogFn:
///            total = the exp_sums of the ranks, folded by the tree of R18;  l = log(total)
///            d = the number whose bits are target_bits;  loss = l - d
///            label_smoothing > 0, with c = (label_smoothing * size) / (size - 1) in fp64, one rounding per operation:
///              smooth = fp32(c);  keep = fp32(1 - c)
///              q = the shifted_sums, folded like the others;  a = q / fp32(size);  w = l - a
///              f = keep * loss;  g = smooth * w;  loss = f + g
///            log_total = m + l
///            z_weight > 0:  h = log_total * log_total;  z = z_weight * h;  loss = loss + z
///          A target outside of [0, size) is an ignored position: its loss is +0.
/// Exact    ordered.
/// Errors   invalid_argument if size < 1, ranks is none of 1, 2, 4 and 8, options are not as described, or a view has
///          another numel.
/// Contract R2, R18, R23. Source: [Fusion:cross_entropy], [Fusion:smoothing], [Fusion:zloss].
using CrossEntropyLossFn = void(const Exec&, const CrossEntropyOptions& options, std::int64_t size,
                                int ranks, Span<const std::uint32_t> largest,
                                Span<const std::int32_t> targets, Span<const float> exp_sums,
                                Span<const float> shifted_sums,
                                Span<const std::uint32_t> target_bits, Span<float> loss,
                                Span<float> total, Span<float> log_total);

/// d loss / d logits of one rank's columns, times d_loss of the row.
///
/// Shapes   d_loss, largest, targets, total, log_total: [rows]. logits, d_logits: [rows, width] as CrossEntropyMaxFn.
///          No overlap.
/// Order    one fp32 rounding per operation, for one row; m, d_j, e_j, keep and c as above; keep = 1 without smoothing:
///            p_j = e_j / total
///            a_j = p_j - keep for the target's column, p_j for the others
///            label_smoothing > 0:  u = fp32(c / size), from fp64;  a_j = a_j - u
///            z_weight > 0:         k = 2 * z_weight;  r = k * log_total;  t_j = r * p_j;  a_j = a_j + t_j
///            d_logits_j = d_loss * a_j
///          An ignored position has d_logits_j = +0.
/// Exact    bitwise.
/// Errors   as CrossEntropyMaxFn and CrossEntropyLossFn.
/// Contract R2, R23. Source: [Fusion:cross_entropy], [Fusion:smoothing], [Fusion:zloss].
using CrossEntropyBackwardFn = void(const Exec&, const VocabularyPart& part,
                                    const CrossEntropyOptions& options, Span<const float> d_loss,
                                    Span<const float> logits, Span<const std::uint32_t> largest,
                                    Span<const std::int32_t> targets, Span<const float> total,
                                    Span<const float> log_total, Span<float> d_logits);

}  // namespace zeroproof
