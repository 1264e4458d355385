#include "verification/compare/bounds/muon_step_bound.hpp"

#include <cmath>
#include <vector>

#include "verification/compare/bounds/model.hpp"
#include "verification/compare/bounds/muon_bounds.hpp"
#include "verification/compare/bounds/newton_schulz_bound.hpp"

namespace zeroproof::verification {

using namespace bounds;

std::optional<double> muon_step_share(const OptimizerHyper& hyper, double scale,
                                      const MuonStepMatrix& matrix) {
  const MuonBounds of_elements(hyper);
  std::vector<float> direction;
  Real off_squares = 0, squares = 0;
  for (std::size_t i = 0; i < matrix.exp_avg.size(); ++i) {
    // Nesterov adds the gradient to the new momentum as the momentum to the old one.
    const ElementBound e = hyper.nesterov
                               ? of_elements.momentum(matrix.grad[i], matrix.exp_avg[i]).exp_avg
                               : ElementBound{matrix.exp_avg[i], 0, true};
    if (!e.judged) return std::nullopt;
    const Real off = e.allowed + u * std::fabs(e.exact) + eta;
    off_squares += off * off;
    direction.push_back(static_cast<float>(e.exact));
    squares += static_cast<Real>(direction.back()) * static_cast<Real>(direction.back());
  }
  NewtonSchulzOptions options = hyper.muon.newton_schulz;
  options.factors = MatrixFactors::fp32;
  const Real norm = std::sqrt(squares);
  const Real divisor = options.floor == NormFloor::add
                           ? norm + static_cast<Real>(options.eps)
                           : std::max(norm, static_cast<Real>(options.eps));
  Real distance = 0;
  std::vector<double> orthogonal;
  for (const PolynomialForm form :
       {PolynomialForm::fused, PolynomialForm::scaled_factor, PolynomialForm::scaled_product}) {
    options.form = form;
    const NewtonSchulzBound bound = NewtonSchulzBound::of(
        options, matrix.rows, matrix.columns, direction, MatrixRounding::of(MatrixFactors::fp32));
    distance = std::max(distance, static_cast<Real>(bound.distance()));
    orthogonal = bound.exact();
  }
  const Real slope = newton_schulz_slope(options.coefficients, 0, options.steps, 1 + 0x1p-20);
  distance += slope * 2 * std::sqrt(off_squares) / divisor * slack;

  const Real rate = static_cast<Real>(hyper.lr) * static_cast<Real>(scale);
  const Real decay = static_cast<Real>(hyper.lr) * static_cast<Real>(hyper.weight_decay);
  Real written_squares = 0, apart_squares = 0, moved_squares = 0;
  for (std::size_t i = 0; i < orthogonal.size(); ++i) {
    const auto p = static_cast<Real>(matrix.before[i]);
    const Real step = rate * static_cast<Real>(orthogonal[i]);
    const ElementBound write = of_elements.master(
        static_cast<float>(rate), static_cast<float>(orthogonal[i]), matrix.before[i]);
    if (!write.judged) return std::nullopt;
    const Real written = write.allowed + gamma_of(6) * std::fabs(step) + 2 * eta;
    const Real apart = static_cast<Real>(matrix.master[i]) - (p - decay * p - step);
    written_squares += written * written;
    apart_squares += apart * apart;
    moved_squares += step * step;
  }
  const Real allowed = (rate * distance * (1 + gamma_of(8)) + std::sqrt(written_squares)) * slack;
  if (!(allowed < std::sqrt(moved_squares))) return std::nullopt;
  return static_cast<double>(std::sqrt(apart_squares) / allowed);
}

}  // namespace zeroproof::verification
