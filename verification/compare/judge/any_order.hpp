#pragma once
// Phases of a step whose results may be those of any legal order of operations, as a plug-in
// computes them.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "verification/compare/bounds/element_bound.hpp"
#include "verification/compare/compare.hpp"
#include "verification/compare/judge/rank_buffers.hpp"

namespace zeroproof::verification {

class AnyOrder {
 public:
  /// setup: of the reference, whose settings both sides have.
  explicit AnyOrder(const OptimizerSetup& setup);

  /// t: of the step that would be applied.
  void begin_step(std::int64_t t) { t_ = t; }

  /// The reference's factors of a phase, before its results are compared.
  void take_factors(const NamedBuffers& reference);
  /// Keeps the reference's values of a phase: the inputs of later ones.
  void keep(const NamedBuffers& reference);

  /// True if a bound over all legal orders applies: update ([Bound:foreign]; not of lamb, of state
  /// in fewer bits, and of tensors that may be left out), unscale and clip ([Bound:scaled]; not
  /// with clip_value).
  bool applies(Phase phase, const ExposedBuffer& buffer) const;

  /// Elements that differ and are outside the bound, or to which none applies. The pieces are of both
  /// buffers. Before: applies().
  Comparison compare(Phase phase, const ExposedBuffer& reference, const ExposedBuffer& candidate,
                     const std::vector<Piece>& pieces) const;

  /// Known wrong formulas with the candidate's results of the phase update, as the end of a sentence;
  /// "" for none.
  std::string wrong_formula(const NamedBuffers& candidate, const std::vector<Piece>& pieces) const;

 private:
  using Bound = std::function<ElementBound(std::int64_t local)>;
  Bound bound_of(Phase phase, BufferId id, std::int64_t tensor) const;
  Span<const float> kept(BufferId id) const;

  OptimizerSetup setup_;
  std::int64_t t_ = 1;
  std::map<BufferId, std::vector<float>> kept_;  // as local elements
  float inv_scale_ = 1;
  std::vector<float> clip_coefs_;  // [clip groups]
};

}  // namespace zeroproof::verification
