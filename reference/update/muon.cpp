#include <cmath>
#include <string>

#include "common/base/error.hpp"
#include "reference/checks.hpp"
#include "reference/operations.hpp"
#include "reference/update/descent.hpp"

namespace zeroproof::reference {
namespace {

/// The factor of an update of a matrix of r by c [Muon:scale].
double scale_of(MuonScale scale, double r, double c) {
  const double ratio = r / c, longer = r > c ? r : c;
  switch (scale) {
    case MuonScale::none:
      return 1;
    case MuonScale::original:
      return std::sqrt(ratio > 1 ? ratio : 1);
    case MuonScale::spectral:
      return std::sqrt(longer);
    case MuonScale::match_rms_adamw:
      return 0.2 * std::sqrt(longer);
    case MuonScale::unit_rms_norm:
      return std::sqrt(ratio);
  }
  fail(ErrorCode::invalid_argument,
       "muon_step_size: scale " + std::to_string(static_cast<int>(scale)) + " does not exist",
       "its factor is undefined", "use one of the scales of R28");
}

}  // namespace

void muon_momentum(const Exec&, const MuonMomentumOptions& options, const StepScalars& s,
                   Span<const float> grad, Span<float> exp_avg, Span<float> direction) {
  check_same_numel("muon_momentum", "grad", grad.size(), "exp_avg", exp_avg.size());
  check_same_numel("muon_momentum", "grad", grad.size(), "direction", direction.size());
  for_each_block(numel(grad), [&](std::int64_t begin, std::int64_t count) {
    const auto block = [&](auto view) { return as_array(part(view, begin, count)); };
    MutableArray momentum = block(exp_avg);
    MutableArray e = block(direction);  // may be the memory of grad, which is read first

    // [Muon:momentum]
    const Block g = apply_direction(options.maximize, block(grad));
    const Block x = s.momentum * momentum;
    const Block y = s.one_minus_dampening * g;
    momentum = x + y;
    if (options.nesterov) {
      const Block h = s.momentum * momentum;
      e = y + h;
    } else {
      e = momentum;
    }
  });
}

float muon_step_size(const MuonSettings& settings, const StepScalars& s, std::int64_t rows,
                     std::int64_t columns) {
  ZP_CHECK(std::isfinite(settings.scale_factor) && settings.scale_factor > 0,
           ErrorCode::invalid_argument,
           "muon_step_size: scale_factor is " + text(settings.scale_factor),
           "it must be finite and above 0", "use such a factor");
  ZP_CHECK(rows >= 1 && columns >= 1, ErrorCode::invalid_argument,
           "muon_step_size: a matrix has " + std::to_string(rows) + " rows and " +
               std::to_string(columns) + " columns",
           "a matrix without elements is not updated", "pass 1 or more of each");
  const double f =
      scale_of(settings.scale, static_cast<double>(rows), static_cast<double>(columns));
  const double z = settings.scale_factor * f;
  return static_cast<float>(double{s.lr} * z);
}

void muon_update(const Exec&, const StepScalars& s, float step_size, Span<const float> orthogonal,
                 Span<float> master) {
  check_same_numel("muon_update", "orthogonal", orthogonal.size(), "master", master.size());
  for_each_block(numel(master), [&](std::int64_t begin, std::int64_t count) {
    const auto block = [&](auto view) { return as_array(part(view, begin, count)); };
    MutableArray weight = block(master);

    // [Muon:update]
    const Block a = step_size * block(orthogonal);
    if (s.has_decay == 0) {  // the decay is not evaluated, instead of adding 0 (R6)
      weight -= a;
      return;
    }
    const Block w = s.lr_weight_decay * weight;
    const Block u = a + w;
    weight -= u;
  });
}

}  // namespace zeroproof::reference
