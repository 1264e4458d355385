#pragma once
// Finds the choices of a step of Muon: which direction, polynomials, roundings, scale, decay and floor give its update.

#include <optional>
#include <string>
#include <vector>

#include "verification/tools/identify/orthogonal.hpp"
#include "verification/tools/identify/recorded_step.hpp"

namespace zeroproof::verification {

struct MuonChoice {
  MuonDirection direction = MuonDirection::momentum;
  Polynomials polynomials = {};

  bool same_values(const MuonChoice& other) const {
    return direction == other.direction && polynomials.same_values(other.polynomials);
  }
};

/// A matrix of the step, with the choice and the roundings that are nearest to the whole step.
struct MuonMatrix {
  const StepTensor* tensor = nullptr;
  double norm = 0;         ///< of the direction
  double distance = 0;     ///< |update - scale * O| / |scale * O|, scale and decay being solved
  double noise = 0;        ///< the same of O with roundings and in fp64
  double allowed = 0;      ///< the largest distance of a right update
  double scale = 0;        ///< of O, without the learning rate
  double decay = 0;        ///< of the parameter: lr * weight_decay
  double decay_error = 0;  ///< of decay
  double element = 0;  ///< the largest rest of an element, in units of the mean one of the update
  double allowed_element = 0;
  bool exact = false;  ///< so near that O has the roundings of the choice, but for single values
};

/// A choice beside the nearest one.
struct MuonAlternative {
  MuonChoice choice;
  double distance = 0;
};

struct FittingScale {
  MuonScaling scaling;
  double factor = 1;
};

struct MuonFinding {
  std::vector<MomentumFamily> families;  ///< that give the momentum within some roundings
  bool coupled = false;                  ///< the gradient has weight_decay * master in it
  std::vector<MuonMatrix> matrices;      ///< evaluated ones
  /// Others: without a direction, near the floor, too large, with roundings as large as the result (of low rank), with
  /// gradients or parameters that are not finite.
  std::int64_t zeros = 0, tiny = 0, large = 0, unclear = 0, nonfinite = 0;
  bool zeros_moved = false;  ///< a matrix without a direction changed by more than its decay
  bool overflows =
      false;  ///< a parameter became infinite or NaN, from a finite one and a finite direction

  MuonChoice choice;
  MuonProducts products = MuonProducts::fused;
  MuonInput input = MuonInput::bf16_norm_bf16;
  bool near = false;             ///< every matrix is within its allowed distance
  bool exact = false;            ///< some matrices are, so that products and input are known
  bool must_be_exact = false;    ///< a matrix is so small that its roundings would be seen
  std::vector<MuonChoice> same;  ///< other choices that this step does not distinguish from it
  std::optional<MuonAlternative> next;  ///< the nearest of all others

  std::vector<FittingScale> scales;  ///< all that fit
  std::vector<std::string> decays;   ///< names of all that fit, "lr*wd" first
  std::vector<std::pair<MuonWrite, MuonScaling>>
      writes;  ///< that have the bits of master, O being any bf16
  std::vector<std::pair<NormFloor, double>> floors;  ///< that fit; empty if no matrix shows it
  std::string hint;                                  ///< of a step that no choice gives

  /// A matrix with an element that the noise does not explain; nullptr if there is none.
  const MuonMatrix* with_wrong_element() const;

  double distance() const;  ///< root mean square
  double noise() const;
};

/// The matrix that is orthogonalised. `coupled`: the gradient has weight_decay * master in it.
Matrix muon_direction(const StepTensor& t, const DialectHyper& h, MuonDirection direction,
                      MomentumFamily family, bool coupled = false);

/// True if the settings state no other choice.
bool allows(const GivenMuon& given, const MuonChoice& choice);

/// Choices that the settings give are tried first, and alone if the step has them. Errors: none; a step without a matrix
/// that can be evaluated has no matrices.
MuonFinding find_muon(const RecordedStep& step);

/// Choices of a library that the step does not have, a text each; empty if it has its update.
std::vector<std::string> excluded_choices(const MuonFormula& formula, const MuonFinding& found,
                                          const DialectHyper& hyper);

}  // namespace zeroproof::verification
