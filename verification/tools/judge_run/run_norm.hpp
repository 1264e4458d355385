#pragma once
// The global norm of a recorded step, from its gradients.

#include <optional>
#include <string>
#include <vector>

#include "verification/compare/bounds/element_bound.hpp"
#include "verification/compare/bounds/model.hpp"
#include "verification/compare/bounds/power_sum.hpp"
#include "verification/tools/judge_run/recording.hpp"

namespace zeroproof::verification {

/// Sums of |x|^p (p infinite: the largest |x|) of every part of the gradients, without the loss scale.
class RunNorm {
 public:
  using Real = bounds::Real;
  struct Part {
    std::size_t parameter = 0, rank = 0;
    Real power_sum = 0;
    std::int64_t numel = 0;
    PowerSum powers = {};  ///< of finite gradients; not of the largest |x|
  };

  /// Of the tensors KIND, "reduced" or "before.grad".
  RunNorm(const RunStep& step, const std::string& kind, double loss_scale);

  /// Why there is no norm: "reduced", "sum_squares"; "" if there is one.
  const std::string& missing() const { return missing_; }
  const std::vector<Part>& parts() const { return parts_; }
  /// bf16 or fp16 if all tensors are stored in it, otherwise fp32.
  DType format() const { return format_.value_or(DType::fp32); }
  /// Every element once: replicated parameters of one rank.
  Real exact() const;
  Real norm_of(Real power_sum) const;
  Real total() const;

  /// [Bound:norm]; above its number of elements, of the norm of the norms of the parts, each by [Bound:norm_large].
  ElementBound bound() const;
  /// True if a part has more elements than [Bound:norm] is for: the bound is then wide.
  bool is_wide() const;

  /// A wrong way to the norm.
  struct Wrong {
    std::string text;
    Real value = 0;
  };
  std::vector<Wrong> wrong_norms(std::size_t rank) const;

 private:
  const RunStep* step_;
  Real p_ = 2;
  double loss_scale_ = 1;
  std::optional<DType> format_;
  std::vector<Part> parts_;
  std::string missing_;

  /// The largest relative error of the norm of norms, without that of joining them; negative if there is none.
  Real error_of_parts() const;
  void add_format(DType dtype) { format_ = !format_ || *format_ == dtype ? dtype : DType::fp32; }
};

/// The wrong way that gives this value, as the end of a sentence; "" for none. least: relative distance of a wrong norm
/// from the right one.
std::string wrong_norm_text(const RunNorm& norm, std::size_t rank, double got, double least);

/// [Bound:coef]: the coefficient that a rank's gradients are multiplied with, from a norm with an error.
ElementBound coefficient_of(const RankFile& rank, const ElementBound& norm, DType accumulation);

/// [Bound:scaled]: one reduced gradient, unscaled and clipped.
ElementBound clipped_bound(const RankFile& rank, const ElementBound& coefficient, float reduced,
                           DType accumulation);

}  // namespace zeroproof::verification
