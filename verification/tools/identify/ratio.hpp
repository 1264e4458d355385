#pragma once
// LAMB's factor of a tensor: solved from its elements, and compared with the norms of the tensor.

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "verification/tools/identify/recorded_step.hpp"

namespace zeroproof::verification {

/// u of every element, from the new moments and the parameter before the step.
/// Shapes   all of one size.
std::vector<float> lamb_updates(const LambMaster& form, const DialectHyper& hyper,
                                Span<const float> master, Span<const float> exp_avg,
                                Span<const float> exp_avg_sq);

/// The factor c of a whole tensor by a dialect's rule, from correctly rounded norms.
float lamb_factor(const LambFormula& formula, const DialectHyper& hyper, Span<const float> master,
                  Span<const float> updates);

/// All floats from low to high: factors with the same results.
struct FactorRange {
  float low = 0, high = std::numeric_limits<float>::infinity();
};

/// The factors that give most elements of a tensor their new parameter, in bits.
FactorRange solve_factor(const LambMaster& form, const DialectHyper& hyper,
                         const StepTensor& tensor);

/// Elements of a tensor that have one factor, and its origin. A ratio is c without the rate: 1 is
/// the step of AdamW.
struct RatioFinding {
  std::string tensor;
  std::size_t begin = 0, end = 0;  ///< elements of the tensor
  double low = 0, high = 0;        ///< ratios that give the bits of all these elements
  double of_norms = 1;             ///< N_w / N_u of the whole tensor; 1 if one is 0
  double weight_norm = 0;          ///< N_w of the whole tensor
  double bound = 0;                ///< |ln(ratio / of_norms)| of norms summed in any order in fp32
  bool decays = false;
  bool part = false;   ///< other elements of the tensor have another ratio
  std::string origin;  ///< "norms of the tensor", or the first other origin that fits

  /// |ln| of the quotient of a ratio and the nearest of the found ones; 0 inside.
  double distance(double ratio) const;
  bool of_its_norms() const { return !part && distance(of_norms) <= bound; }
};

/// One finding for every tensor.
std::vector<RatioFinding> ratios_of(const LambMaster& form, const RecordedStep& step);

/// Findings of tensors that are split into as few parts as possible, with one factor each. Empty if
/// a tensor needs more than 16 parts, or one of fewer than 8 elements.
std::vector<RatioFinding> ratios_of_parts(const LambMaster& form, const RecordedStep& step);

/// True if the rule takes such a ratio.
bool allows(const RatioRule& rule, const RatioFinding& found);

/// "max(N_w/N_u, 0.01)" and so on, without "1 if a norm is 0".
std::string ratio_text(const RatioRule& rule);

}  // namespace zeroproof::verification
