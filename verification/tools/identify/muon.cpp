#include "verification/tools/identify/muon.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>

#include "common/base/float_formats.hpp"
#include "common/base/same_value.hpp"
#include "verification/tools/identify/muon_text.hpp"

namespace zeroproof::verification {
namespace {

constexpr double unbounded = std::numeric_limits<double>::infinity();
constexpr double unit = 0x1p-24;         // of fp32, to nearest
constexpr double least_norm = 1e-4;      // a floor of at most 1e-7 does not matter above
constexpr double largest_cost = 0x1p21;  // rows * columns * the smaller of them
constexpr double most_noise = 0.25;
// Five steps in bf16 have no bound [Bound:newton_schulz], so the limits of distances are measured:
// the noise of recorded steps is 1 to 4 %, and about 4 times that is accepted.
constexpr double most_distance = 0.15;
constexpr double largest_exact = 0.0025;  // a factor that is rounded to bf16 is up to 2^-9 off
constexpr double largest_of_low_rank =
    1e-5;  // of rank 1, every polynomial has the same result but for its scale
constexpr double single_noise =
    0x1p-11;  // of fp32: the Gram form squares the condition of a matrix
constexpr std::size_t most_matrices = 8;    // of the search
constexpr double largest_given = 0x1p27;    // as largest_cost, where the choices are given
constexpr double most_given_cost = 0x1p22;  // of matrices whose roundings are searched then
constexpr double least_given_norm = 1e-15;  // squares of elements are above 2^-126
// Of an element, in units of the root mean square of O, and of the noise: recorded steps have up to 9; and of a matrix
// with the roundings of a choice, but for single values: up to 0.018.
constexpr double most_element = 16, most_exact_element = 0.125;
// Scale and decay are solved from the elements, so that fewer fit nearly every choice.
constexpr std::size_t few_elements = 8;
// A smaller distance from fp32 in most matrices is none of bf16, whose last rounding alone is about 2^-10.
constexpr double surely_single = 0x1p-13;
constexpr int most_steps = 12;
constexpr std::size_t most_rounded = 16;  // choices that are evaluated with roundings

constexpr MuonDirection directions[] = {MuonDirection::momentum, MuonDirection::nesterov,
                                        MuonDirection::nesterov_corrected};

double dot(const std::vector<double>& x, const std::vector<double>& y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

/// The gradient as the momentum takes it.
double used_gradient(const DialectHyper& h, const StepTensor& t, std::size_t i, bool coupled) {
  const double g = h.maximize ? -double{t.grad[i]} : double{t.grad[i]};
  return coupled ? g + h.weight_decay * t.before.master[i] : g;
}

double weight_of(MomentumFamily family, const DialectHyper& h) {
  return family == MomentumFamily::ema ? 1 - h.momentum : 1;
}

/// True if the momentum of every element is mu m + w g within 4 roundings of its terms.
bool has_family(const RecordedStep& step, MomentumFamily family, bool coupled) {
  const DialectHyper& h = step.hyper;
  const double w = weight_of(family, h);
  for (const StepTensor& t : step.tensors) {
    for (std::size_t i = 0; i < t.numel(); ++i) {
      const double kept = h.momentum * t.before.momentum_buffer[i];
      const double taken = w * used_gradient(h, t, i, coupled);
      const double got = t.after.momentum_buffer[i];
      const double sum = kept + taken;
      if ((std::isnan(sum) && std::isnan(got)) || (std::isinf(sum) && sum == got)) continue;
      // 2^-149 is the smallest difference of two floats.
      const double bound = 4 * unit * (std::fabs(kept) + std::fabs(taken)) + 0x1p-148;
      if (!(std::fabs(got - sum) <= bound)) return false;
    }
  }
  return true;
}

struct Fit {
  double distance = unbounded, scale = 0, decay = 0, decay_error = 0, resolution = 0;
  double element =
      unbounded;  ///< the largest rest of an element, in units of the mean one of scale * o
  double element_resolution = 0;
  bool few = false;     ///< too few elements to tell choices apart
  bool hidden = false;  ///< the update is smaller than the rounding of the parameters
};

/// p - p' = decay * p + scale * o, in least squares.
Fit fitted(const StepTensor& t, const DialectHyper& h, const Matrix& o) {
  std::vector<double> p(t.before.master.begin(), t.before.master.end()), moved(t.numel());
  double after = 0, most = 0;
  for (std::size_t i = 0; i < t.numel(); ++i) {
    moved[i] = p[i] - double{t.after.master[i]};
    after += double{t.after.master[i]} * double{t.after.master[i]};
    most = std::max(most, std::fabs(double{t.after.master[i]}));
  }
  const double pp = dot(p, p), oo = dot(o.values, o.values), po = dot(p, o.values);
  const double py = dot(p, moved), oy = dot(o.values, moved);
  const double independent = oo == 0 ? 0 : pp - po * po / oo;  // of p, beside o
  Fit fit;
  if (!(oo > 0) || !std::isfinite(oo + oy)) return fit;
  fit.decay = h.lr * h.weight_decay;
  fit.few = t.numel() < few_elements;
  fit.hidden = h.lr * std::sqrt(oo) < unit * std::sqrt(after) / 4;
  const bool solves = !fit.few && independent > 1e-6 * pp;
  if (solves) fit.decay = (py - po * oy / oo) / independent;
  fit.scale = (oy - fit.decay * po) / oo;
  double rest = 0, largest = 0;
  for (std::size_t i = 0; i < t.numel(); ++i) {
    const double r = moved[i] - fit.decay * p[i] - fit.scale * o.values[i];
    rest += r * r;
    largest = std::max(largest, std::fabs(r));
  }
  const double size = std::fabs(fit.scale) * std::sqrt(oo);
  fit.distance = size > 0 ? std::sqrt(rest) / size : unbounded;
  const double mean = size / std::sqrt(static_cast<double>(t.numel()));
  if (size > 0) fit.element = largest / mean;
  if (size > 0) fit.element_resolution = 8 * unit * most / mean;
  fit.resolution = size > 0 ? 2 * unit * std::sqrt(after) / size : 0;
  const double spread = std::sqrt(rest / static_cast<double>(t.numel()));
  fit.decay_error = solves ? 5 * spread / std::sqrt(independent) + 2 * unit : unbounded;
  return fit;
}

/// A choice with its distance to every matrix.
struct Scored {
  MuonChoice choice;
  std::vector<Fit> fits;
  double distance() const {
    double sum = 0;
    for (const Fit& fit : fits) sum += fit.scale > 0 ? fit.distance * fit.distance : unbounded;
    return std::sqrt(sum / static_cast<double>(fits.size()));
  }
  /// The lower middle one: in bf16 a single matrix may be far from its result in fp64.
  double middle_distance() const {
    std::vector<double> all;
    for (const Fit& fit : fits) all.push_back(fit.scale > 0 ? fit.distance : unbounded);
    std::ranges::sort(all);
    return all[(all.size() - 1) / 2];
  }
};

/// With roundings.
struct Rounded : Scored {
  MuonProducts products = MuonProducts::fused;
  MuonInput input = MuonInput::bf16_norm_bf16;
  bool is_given = false;  ///< the settings leave no other choice
  std::vector<double> noises;

  bool exact(std::size_t k) const {
    const double most = noises[k] < most_noise ? largest_exact : largest_of_low_rank;
    return input != MuonInput::fp32 && !fits[k].few &&
           fits[k].distance < std::min(noises[k] / 8, most);
  }
  /// The noise of one matrix is a draw, so that of all is considered too.
  double noise(std::size_t k) const {
    double sum = 0, count = 0;
    for (std::size_t i = 0; i < noises.size(); ++i) {
      if (!shows(i) || !(noises[i] < most_noise)) continue;
      sum += noises[i] * noises[i];
      ++count;
    }
    return std::max(noises[k], count > 0 ? std::sqrt(sum / count) : 0);
  }
  /// The largest rest of an element of a right update.
  double allowed_element(std::size_t k) const {
    const double least = input == MuonInput::fp32 ? single_noise : 0;
    const double noise = most_element * std::max(this->noise(k), least);
    return (exact(k) ? std::min(noise, most_exact_element) : noise) + fits[k].element_resolution;
  }
  /// The largest distance of a right update.
  double allowed(std::size_t k) const {
    const double noise = 4 * this->noise(k) + fits[k].resolution;
    if (input == MuonInput::fp32) return std::max(noise, single_noise);
    // Two legal results are up to the sum of their noises apart; of many choices one would fit by that.
    const double sum = is_given ? 2 * this->noise(k) : 0;
    return std::min(noise, std::max(most_distance, sum));
  }
  /// Roundings that are as large as the result leave nothing to compare: of a matrix of low rank, for example.
  bool shows(std::size_t k) const {
    return !fits[k].hidden && (exact(k) || noises[k] < most_noise);
  }
  bool near() const {
    bool any = false;
    for (std::size_t k = 0; k < fits.size(); ++k) {
      if (!shows(k)) continue;
      any = true;
      if (!(fits[k].scale > 0) || !(exact(k) || fits[k].distance <= allowed(k))) return false;
    }
    return any;
  }
  std::ptrdiff_t num_exact() const {
    std::ptrdiff_t count = 0;
    for (std::size_t k = 0; k < fits.size(); ++k) count += exact(k) ? 1 : 0;
    return count;
  }
  /// Most matrices have this choice in fp32; a wrong one does not make the others bf16.
  bool is_single() const {
    if (input != MuonInput::fp32) return false;
    std::ptrdiff_t count = 0, all = 0;
    for (const Fit& fit : fits) {
      if (fit.few || fit.hidden) continue;
      ++all;
      count += fit.scale > 0 && fit.distance <= surely_single ? 1 : 0;
    }
    return 2 * count > all;
  }
  /// Nearer to the step: more exact matrices, most in fp32, all near, the distance.
  bool before(const Rounded& other) const {
    const std::ptrdiff_t mine = num_exact(), theirs = other.num_exact();
    if (mine != theirs) return mine > theirs;
    if (is_single() != other.is_single()) return is_single();
    return near() != other.near() ? near() : distance() < other.distance();
  }
};

double relative_difference(const Matrix& a, const Matrix& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const double d = a.values[i] - b.values[i];
    sum += d * d;
  }
  return std::sqrt(sum) / b.norm();
}

class Search {
 public:
  /// `only_given`: of the choices that the settings allow.
  Search(const RecordedStep& step, bool only_given, MuonFinding& found)
      : step_(step), given_(step.hyper.muon), only_given_(only_given), found_(found) {
    if (given_.family)
      family_ = *given_.family;
    else if (!found.families.empty())
      family_ = found.families.front();
    choose_matrices();
    if (tensors_.empty()) return;
    score_exact();
    score_rounded();
    conclude();
  }

  Matrix direction(const StepTensor& t, MuonDirection which) const {
    return muon_direction(t, step_.hyper, which, family_, found_.coupled);
  }

 private:
  void choose_matrices() {
    std::vector<const StepTensor*> usable;
    for (const StepTensor& t : step_.tensors) {
      if (t.numel() == 0) continue;
      const double norm = direction(t, MuonDirection::momentum).norm();
      found_.overflows = found_.overflows || (std::isfinite(norm) && overflows(t));
      const double cost = cost_of(t);
      if (norm == 0) {
        ++found_.zeros;
        found_.zeros_moved = found_.zeros_moved || moves_beyond_decay(t);
      } else if (const auto finite = [](float x) { return std::isfinite(x); };
                 !std::ranges::all_of(t.grad, finite) ||
                 !std::ranges::all_of(t.before.master, finite)) {
        ++found_.nonfinite;
      } else if (norm < (given_.floor && given_.eps ? least_given_norm : least_norm)) {
        ++found_.tiny;
      } else if (cost > (only_given_ ? largest_given : largest_cost) ||
                 !(norm < 0x1p60)) {  // no norm of fp32 overflows below
        ++found_.large;
      } else {
        usable.push_back(&t);
      }
    }
    std::ranges::stable_sort(usable, {}, [](const StepTensor* t) { return t->numel(); });
    all_ = usable;
    if (usable.size() > most_matrices) usable.resize(most_matrices);
    double cost = 0;
    for (const StepTensor* t : usable) {
      cost += cost_of(*t);
      if (only_given_ && !tensors_.empty() && cost > most_given_cost) break;
      tensors_.push_back(t);
    }
  }

  static double cost_of(const StepTensor& t) {
    return static_cast<double>(t.numel() * std::min(t.rows, t.columns));
  }

  /// Of a matrix with a finite direction.
  static bool overflows(const StepTensor& t) {
    const auto is_finite = [](float x) { return std::isfinite(x); };
    return std::ranges::all_of(t.before.master, is_finite) &&
           !std::ranges::all_of(t.after.master, is_finite);
  }

  /// Of a matrix without a direction.
  bool moves_beyond_decay(const StepTensor& t) const {
    const double decay = step_.hyper.lr * step_.hyper.weight_decay;
    for (std::size_t i = 0; i < t.numel(); ++i) {
      const double p = t.before.master[i];
      if (!(std::fabs(p - decay * p - t.after.master[i]) <= 4 * unit * std::fabs(p))) return true;
    }
    return false;
  }

  void score_exact() {
    for (const MuonDirection which : directions) {
      if (which == MuonDirection::nesterov_corrected && family_ != MomentumFamily::ema) continue;
      for (const NewtonSchulzSetTraits& traits : newton_schulz_sets) {
        const int last = given_.steps.value_or(0) > most_steps ? *given_.steps : most_steps;
        std::vector<Scored> of_steps;
        for (int k = 0; k <= last; ++k) {
          const MuonChoice choice{which, {traits.set, k}};
          if (!only_given_ || allows(given_, choice)) of_steps.push_back({choice, {}});
        }
        if (of_steps.empty()) continue;
        for (const StepTensor* t : tensors_) {
          const Matrix e = direction(*t, which);
          const std::vector<Matrix> results =
              exact_orthogonal(e, of_steps.back().choice.polynomials, given_.divisor(e.norm()));
          for (Scored& scored : of_steps) {
            const auto k = static_cast<std::size_t>(scored.choice.polynomials.steps);
            scored.fits.push_back(fitted(*t, step_.hyper, results[k]));
          }
        }
        for (Scored& scored : of_steps) {
          const bool again = std::ranges::any_of(
              scored_, [&](const Scored& s) { return s.choice.same_values(scored.choice); });
          if (!again) scored_.push_back(std::move(scored));
        }
      }
    }
    std::ranges::stable_sort(scored_, {}, [](const Scored& s) { return s.middle_distance(); });
  }

  void score_rounded() {
    const double limit = std::max(0.2, 2 * scored_.front().middle_distance());
    const bool visible = !only_given_ || cost_of(*tensors_.front()) <= most_given_cost;
    const bool fp32_alone = only_given_ && given_.factors == MatrixFactors::fp32;
    const bool bf16_alone = only_given_ && given_.factors == MatrixFactors::bf16;
    for (std::size_t k = 0; k < std::min(most_rounded, scored_.size()); ++k) {
      if (scored_[k].middle_distance() > limit && k > 0) break;
      const MuonChoice choice = scored_[k].choice;
      for (const MuonInput input :
           {MuonInput::bf16_norm_bf16, MuonInput::bf16_first, MuonInput::bf16_last}) {
        if (fp32_alone) break;
        for (const MuonProducts products :
             {MuonProducts::fused, MuonProducts::scaled_factor, MuonProducts::scaled_product,
              MuonProducts::partly_fused}) {
          if (visible || rounded_.empty()) rounded_.push_back(rounded(choice, products, input));
        }
      }
      Rounded single = rounded(choice, MuonProducts::single, MuonInput::fp32);
      // A step that is surely fp32 is no noise of bf16.
      if (!bf16_alone || single.is_single()) rounded_.push_back(std::move(single));
    }
    std::ranges::stable_sort(rounded_,
                             [](const Rounded& a, const Rounded& b) { return a.before(b); });
  }

  Rounded rounded(MuonChoice choice, MuonProducts products, MuonInput input) const {
    Rounded r;
    r.choice = choice;
    r.products = products;
    r.input = input;
    r.is_given = only_given_ && given_.nesterov && given_.coefficients && given_.steps;
    for (const StepTensor* t : tensors_) {
      const Matrix e = direction(*t, choice.direction);
      const Matrix o = rounded_orthogonal(e, choice.polynomials, products, input, given_);
      r.fits.push_back(fitted(*t, step_.hyper, o));
      const Matrix want = exact_orthogonal(e, choice.polynomials, given_.divisor(e.norm())).back();
      r.noises.push_back(relative_difference(o, want));
    }
    return r;
  }

  /// The chance that a sum of this matrix is so near a rounding boundary of bf16 that its order decides: 2^-15 for each
  /// value, fp32 having 16 bits more.
  static double expected_flips(const StepTensor& t, int steps) {
    const auto small = static_cast<double>(std::min(t.rows, t.columns));
    return steps * (2 * small * small + static_cast<double>(t.numel())) * 0x1p-14;
  }

  void conclude() {
    const Rounded& nearest = rounded_.front();
    tensors_ = all_;
    const Rounded best = rounded(nearest.choice, nearest.products, nearest.input);
    found_.choice = best.choice;
    found_.products = best.products;
    found_.input = best.input;
    found_.near = best.near();
    found_.exact = best.num_exact() > 0;
    for (std::size_t k = 0; k < tensors_.size(); ++k) {
      MuonMatrix m;
      m.tensor = tensors_[k];
      m.norm = direction(*tensors_[k], best.choice.direction).norm();
      m.distance = best.fits[k].distance;
      m.noise = best.noises[k];
      m.allowed = best.allowed(k);
      m.scale = step_.hyper.lr == 0 ? 0 : best.fits[k].scale / step_.hyper.lr;
      m.decay = best.fits[k].decay;
      m.decay_error = best.fits[k].decay_error;
      m.element = best.fits[k].element;
      m.allowed_element = best.allowed_element(k);
      m.exact = best.exact(k);
      if (!best.shows(k)) {
        ++found_.unclear;
        continue;
      }
      if (expected_flips(*m.tensor, best.choice.polynomials.steps) < 0.125)
        found_.must_be_exact = true;
      found_.matrices.push_back(m);
    }
    find_alternatives(nearest);
  }

  void find_alternatives(const Rounded& best) {
    for (const Scored& scored : scored_) {
      if (scored.choice.same_values(best.choice)) continue;
      double distance = scored.distance();
      bool exact = false;
      for (const Rounded& r : rounded_) {
        if (!r.choice.same_values(scored.choice)) continue;
        distance = std::min(distance, r.distance());
        exact = exact || r.num_exact() > 0;
      }
      const bool apart = found_.exact ? !exact : distance > 1.5 * best.distance();
      if (!apart) {
        found_.same.push_back(scored.choice);
      } else if (!found_.next || distance < found_.next->distance) {
        found_.next = MuonAlternative{scored.choice, distance};
      }
    }
  }

  const RecordedStep& step_;
  const GivenMuon& given_;
  bool only_given_;
  MuonFinding& found_;
  MomentumFamily family_ = MomentumFamily::ema;
  std::vector<const StepTensor*> all_, tensors_;  // that can be evaluated; those of the search
  std::vector<Scored> scored_;
  std::vector<Rounded> rounded_;
};

constexpr MuonScaling scalings[] = {{MuonScale::none},
                                    {MuonScale::original},
                                    {MuonScale::unit_rms_norm},
                                    {MuonScale::spectral},
                                    {MuonScale::match_rms_adamw},
                                    {MuonScale::original, true},
                                    {MuonScale::unit_rms_norm, true}};

/// Scales that all matrices allow, in units of the given factor: of one with roundings of the choice within 2^-8, which
/// is that of an update that is rounded to bf16 after its scale, in fp32 within its noise, of others within their
/// distance.
void find_scales(double factor, MuonFinding& found) {
  for (const MuonScaling scaling : scalings) {
    double low = 0, high = unbounded;
    for (const MuonMatrix& m : found.matrices) {
      const double ratio =
          m.scale / (factor * scale_of(scaling, m.tensor->rows, m.tensor->columns));
      // The distance of a vector does not have the noise of its length.
      const bool vector = std::min(m.tensor->rows, m.tensor->columns) == 1;
      const double distance = vector ? std::max(m.distance, m.noise) : m.distance;
      const double off = found.input == MuonInput::fp32 ? std::max(single_noise, 2 * distance)
                         : m.exact                      ? 0x1p-8
                                                        : std::max(0.02, 2 * distance);
      low = std::max(low, ratio / (1 + off));
      high = std::min(high, ratio * (1 + off));
    }
    if (!(low <= high) || !(high > 0)) continue;
    found.scales.push_back({scaling, low <= 1 && high >= 1 ? 1 : std::sqrt(low * high)});
  }
  // Factors of 1 first; the others are the same scale in other units.
  std::ranges::stable_partition(found.scales, [](const FittingScale& s) { return s.factor == 1; });
}

void find_decays(const DialectHyper& h, MuonFinding& found) {
  struct Named {
    std::string name;
    double decay;  ///< of every matrix, NaN: times its scale
  };
  const double product = h.lr * h.weight_decay;
  std::vector<Named> named = {{"lr*wd", product}};
  if (h.weight_decay != 0) {
    named.push_back({"none", 0});
    named.push_back({"wd, without the rate", h.weight_decay});
    named.push_back({"lr*lr*wd", h.lr * product});
    named.push_back({"lr*z*wd, with the scale of the update", std::nan("")});
    named.push_back({"-lr*wd, with the wrong sign", -product});
  }
  for (const Named& n : named) {
    const bool fits = std::ranges::all_of(found.matrices, [&](const MuonMatrix& m) {
      const double want = std::isnan(n.decay) ? m.scale * product : n.decay;
      return std::fabs(m.decay - want) <= m.decay_error;
    });
    if (fits) found.decays.push_back(n.name);
  }
}

/// The new parameter if O is bf16: the one that gives p' is searched for.
float written(MuonWrite form, bool fused, const DialectHyper& h, double z, float p, float got) {
  const auto solved = [](double o) { return to_float(to_bf16(static_cast<float>(o))); };
  const auto sum = [&](float factor, float x, float y) {
    return fused ? std::fma(factor, x, y) : factor * x + y;
  };
  const auto product = static_cast<float>(h.lr * h.weight_decay);
  if (form == MuonWrite::in_sum) {
    const auto rate = static_cast<float>(h.lr * z);
    const float w = product * p;
    const float o = solved((double{p} - double{w} - double{got}) / double{rate});
    return p - (h.weight_decay == 0 ? rate * o : rate * o + w);
  }
  const bool update = form == MuonWrite::scaled_update;
  float kept = p;
  if (update && h.weight_decay != 0) kept = sum(-product, p, p);
  if (!update) kept = p * static_cast<float>(1 - h.lr * h.weight_decay);
  const double inside = update ? z : 1;
  const auto rate = static_cast<float>(form == MuonWrite::scaled_rate ? h.lr * z : h.lr);
  const float o = solved((double{kept} - double{got}) / (double{rate} * inside));
  const float scaled = update ? o * static_cast<float>(inside) : o;
  return sum(-rate, scaled, kept);
}

void find_writes(const RecordedStep& step, MuonFinding& found) {
  for (const MuonWrite form : {MuonWrite::scaled_rate, MuonWrite::scaled_update,
                               MuonWrite::rounded_update, MuonWrite::in_sum}) {
    for (const MuonScaling scaling : scalings) {
      if (form == MuonWrite::rounded_update && scaling.scale != MuonScale::none) continue;
      for (const bool fused : {true, false}) {
        std::int64_t wrong = 0, all = 0;
        for (const StepTensor& t : step.tensors) {
          if (t.numel() == 0) continue;
          const double z = scale_of(scaling, t.rows, t.columns);
          for (std::size_t i = 0; i < t.numel(); ++i, ++all) {
            const float got = t.after.master[i];
            wrong += same_value(written(form, fused, step.hyper, z, t.before.master[i], got), got)
                         ? 0
                         : 1;
          }
        }
        if (wrong * 100 > all) continue;
        if (std::ranges::find(found.writes, std::pair{form, scaling}) == found.writes.end())
          found.writes.emplace_back(form, scaling);
      }
    }
  }
}

/// Floors that give the matrices whose norm is near 1e-7, with a direction that is possible.
void find_floors(const RecordedStep& step, const Search& search, MuonFinding& found) {
  if (found.tiny == 0 || found.scales.empty()) return;
  const FittingScale scale = found.scales.front();
  double tolerance = 0.02;
  for (const MuonMatrix& m : found.matrices) {
    if (m.noise < most_noise) tolerance = std::max(tolerance, 4 * m.noise);
  }
  std::vector<MuonChoice> possible = found.same;
  possible.push_back(found.choice);
  for (const NormFloor floor : {NormFloor::add, NormFloor::clamp}) {
    for (const double eps : {1e-7, 1e-8, 1e-15}) {
      const bool fits = std::ranges::any_of(possible, [&](const MuonChoice& choice) {
        bool shown = false;
        for (const StepTensor& t : step.tensors) {
          const Matrix e = search.direction(t, choice.direction);
          const double norm = e.norm();
          if (t.numel() == 0 || norm >= 1e-5 || norm < 1e-9) continue;
          shown = true;
          const double divisor = floor == NormFloor::add ? norm + eps : std::max(norm, eps);
          const Matrix o = exact_orthogonal(e, choice.polynomials, divisor).back();
          const Fit fit = fitted(t, step.hyper, o);
          const double want =
              step.hyper.lr * scale.factor * scale_of(scale.scaling, t.rows, t.columns);
          if (!(fit.distance <= tolerance && std::fabs(fit.scale / want - 1) <= tolerance))
            return false;
        }
        return shown;
      });
      if (fits) found.floors.emplace_back(floor, eps);
    }
  }
}

/// O of parts of a matrix: rows [k * size, (k + 1) * size) each, or columns.
Matrix orthogonal_parts(const Matrix& e, Polynomials polynomials, std::size_t parts, bool rows) {
  Matrix o = e;
  const std::size_t extent = rows ? e.rows : e.columns;
  const std::size_t size = (extent + parts - 1) / parts;
  for (std::size_t from = 0; from < extent; from += size) {
    const std::size_t to = std::min(extent, from + size);
    Matrix part{rows ? to - from : e.rows, rows ? e.columns : to - from, {}};
    const auto at = [&](std::size_t i, std::size_t j) {
      return (rows ? i + from : i) * e.columns + (rows ? j : j + from);
    };
    for (std::size_t i = 0; i < part.rows; ++i) {
      for (std::size_t j = 0; j < part.columns; ++j) part.values.push_back(e.values[at(i, j)]);
    }
    const Matrix result = exact_orthogonal(part, polynomials, part.norm()).back();
    for (std::size_t i = 0; i < part.rows; ++i) {
      for (std::size_t j = 0; j < part.columns; ++j)
        o.values[at(i, j)] = result.values[i * part.columns + j];
    }
  }
  return o;
}

/// The elements of the transposed result, as if it had not been transposed back.
Matrix left_transposed(const Matrix& o) {
  Matrix other = o;
  for (std::size_t i = 0; i < o.rows; ++i) {
    for (std::size_t j = 0; j < o.columns; ++j)
      other.values[j * o.rows + i] = o.values[i * o.columns + j];
  }
  return other;
}

/// What gives a step that no choice does.
void find_hint(const RecordedStep& step, const Search& search, MuonFinding& found) {
  const DialectHyper& h = step.hyper;
  std::vector<Polynomials> possible = {{NewtonSchulzSet::simple, 5},
                                       {NewtonSchulzSet::quintic, 5},
                                       {NewtonSchulzSet::polar_express_dion, 5}};
  if (h.muon.coefficients || h.muon.steps)
    possible = {{h.muon.coefficients.value_or(NewtonSchulzSet::simple), h.muon.steps.value_or(5)}};
  using Result = std::function<Matrix(const StepTensor&, Polynomials, MuonDirection)>;
  // The largest distance of a matrix, of the choice that is nearest.
  const auto distance_of = [&](const Result& result, double sign) {
    double least = unbounded;
    for (const Polynomials& polynomials : possible) {
      for (const MuonDirection which : directions) {
        if (!allows(h.muon, {which, polynomials})) continue;
        double most = 0;
        for (const MuonMatrix& m : found.matrices) {
          const Fit fit = fitted(*m.tensor, h, result(*m.tensor, polynomials, which));
          most = std::max(most, sign * fit.scale > 0 ? fit.distance : unbounded);
        }
        least = std::min(least, most);
      }
    }
    return least;
  };
  double nearest = unbounded;
  const auto take = [&](const Result& result, double sign, const std::string& text) {
    const double distance = distance_of(result, sign);
    if (distance < 0.9 * nearest) found.hint = text;  // of equal ones the first
    nearest = std::min(nearest, distance);
  };
  const auto whole = [](const Matrix& e, Polynomials polynomials, double divisor) {
    return exact_orthogonal(e, polynomials, divisor).back();
  };
  const Result right = [&](const StepTensor& t, Polynomials polynomials, MuonDirection which) {
    const Matrix e = search.direction(t, which);
    return whole(e, polynomials, h.muon.divisor(e.norm()));
  };
  constexpr double close = 0.1, far = 0.35;
  const double without_mistake = distance_of(right, 1);
  if (without_mistake < close) return;
  take(right, -1, "the update has the wrong sign");
  for (const std::size_t parts : {2U, 3U, 4U, 8U}) {
    for (const bool rows : {true, false}) {
      take(
          [&](const StepTensor& t, Polynomials polynomials, MuonDirection which) {
            return orthogonal_parts(search.direction(t, which), polynomials, parts, rows);
          },
          1,
          "as if Newton-Schulz took " + std::to_string(parts) + " parts of the " +
              (rows ? "rows" : "columns") + " of each matrix by itself");
    }
  }
  take(
      [&](const StepTensor& t, Polynomials polynomials, MuonDirection which) {
        const Matrix e = search.direction(t, which);
        return left_transposed(whole(e, polynomials, e.norm()));
      },
      1, "as if the result of Newton-Schulz had not been transposed back");
  const auto of = [&](const auto& value, const std::string& text) {
    take(
        [&](const StepTensor& t, Polynomials polynomials, MuonDirection) {
          Matrix e{t.rows, t.columns, std::vector<double>(t.numel())};
          for (std::size_t i = 0; i < t.numel(); ++i) e.values[i] = value(t, i);
          return whole(e, polynomials, e.norm());
        },
        1, text);
  };
  const double mu = h.momentum;
  of([](const StepTensor& t, std::size_t i) { return double{t.grad[i]}; },
     "as if Newton-Schulz took the gradient, without momentum");
  of([](const StepTensor& t, std::size_t i) { return double{t.before.momentum_buffer[i]}; },
     "as if Newton-Schulz took the momentum of the step before");
  of([&](const StepTensor& t,
         std::size_t i) { return t.grad[i] + mu * t.after.momentum_buffer[i]; },
     "as if Nesterov added the gradient with the weight 1 of heavy ball");
  of([&](const StepTensor& t,
         std::size_t i) { return (1 - mu) * t.grad[i] + mu * t.after.momentum_buffer[i]; },
     "as if Nesterov added the gradient with the weight 1 - momentum of ema");
  of([&](const StepTensor& t,
         std::size_t i) { return double{t.grad[i]} + t.after.momentum_buffer[i]; },
     "as if Nesterov added the momentum without its weight");
  const auto divided = [&](double eps, NormFloor floor, const std::string& text) {
    take(
        [&](const StepTensor& t, Polynomials polynomials, MuonDirection which) {
          const Matrix e = search.direction(t, which);
          GivenMuon other;
          other.floor = floor;
          other.eps = eps;
          return whole(e, polynomials, other.divisor(e.norm()));
        },
        1, text);
  };
  for (const char* eps : {"1e-6", "1e-5", "1e-4", "1e-3", "1e-2", "1e-1", "1"}) {
    for (const NormFloor floor : {NormFloor::add, NormFloor::clamp}) {
      divided(std::strtod(eps, nullptr), floor,
              std::string("as if eps of the norm were ") + eps + ", which dominates it");
    }
  }
  // In the noise of bf16, it has to be much nearer than without a mistake.
  if (!(nearest < close || (nearest < far && nearest < 0.5 * without_mistake))) found.hint.clear();
}

}  // namespace

double MuonFinding::distance() const {
  double sum = 0;
  for (const MuonMatrix& m : matrices) sum += m.distance * m.distance;
  return matrices.empty() ? 0 : std::sqrt(sum / static_cast<double>(matrices.size()));
}

double MuonFinding::noise() const {
  double sum = 0;
  for (const MuonMatrix& m : matrices) sum += m.noise * m.noise;
  return matrices.empty() ? 0 : std::sqrt(sum / static_cast<double>(matrices.size()));
}

const MuonMatrix* MuonFinding::with_wrong_element() const {
  const auto wrong = std::ranges::find_if(
      matrices, [](const MuonMatrix& m) { return !(m.element <= m.allowed_element); });
  return wrong == matrices.end() ? nullptr : &*wrong;
}

namespace {

MuonFinding searched(const RecordedStep& step, bool only_given) {
  MuonFinding found;
  for (const bool coupled : {false, true}) {
    if (coupled && (step.hyper.weight_decay == 0 || !found.families.empty())) break;
    for (const MomentumFamily family : {MomentumFamily::ema, MomentumFamily::heavy_ball}) {
      if (!has_family(step, family, coupled)) continue;
      found.families.push_back(family);
      found.coupled = coupled;
    }
  }
  const Search search(step, only_given, found);
  if (found.matrices.empty()) return found;
  find_scales(step.hyper.muon.scale_factor, found);
  find_decays(step.hyper, found);
  find_writes(step, found);
  find_floors(step, search, found);
  if (!found.near && !only_given) find_hint(step, search, found);
  return found;
}

}  // namespace

MuonFinding find_muon(const RecordedStep& step) {
  if (!step.hyper.muon.any()) return searched(step, false);
  const MuonFinding given = searched(step, true);
  if (given.matrices.empty() || muon_mistakes(step, given).empty()) return given;
  const MuonFinding all = searched(step, false);
  // Within the noise of bf16, but without its roundings: it may be fp32 with a mistake.
  const bool in_noise = step.hyper.muon.factors == MatrixFactors::fp32 && all.near &&
                        all.input != MuonInput::fp32 &&
                        !std::ranges::all_of(all.matrices, &MuonMatrix::exact);
  return all.matrices.empty() || in_noise || muon_mistakes(step, all).empty() ? given : all;
}

Matrix muon_direction(const StepTensor& t, const DialectHyper& h, MuonDirection direction,
                      MomentumFamily family, bool coupled) {
  Matrix e{t.rows, t.columns, std::vector<double>(t.numel())};
  const double w = weight_of(family, h);
  const auto steps = static_cast<double>(h.t);
  for (std::size_t i = 0; i < t.numel(); ++i) {
    const double m = t.after.momentum_buffer[i], g = used_gradient(h, t, i, coupled);
    if (direction == MuonDirection::momentum) {
      e.values[i] = m;
    } else if (direction == MuonDirection::nesterov) {
      e.values[i] = w * g + h.momentum * m;
    } else {
      e.values[i] = h.momentum * m / (1 - std::pow(h.momentum, steps + 1)) +
                    w * g / (1 - std::pow(h.momentum, steps));
    }
  }
  return e;
}

bool allows(const GivenMuon& given, const MuonChoice& choice) {
  if (given.nesterov && *given.nesterov != (choice.direction != MuonDirection::momentum))
    return false;
  if (given.steps && *given.steps != choice.polynomials.steps) return false;
  return !given.coefficients ||
         choice.polynomials.same_values({*given.coefficients, choice.polynomials.steps});
}

std::vector<std::string> excluded_choices(const MuonFormula& f, const MuonFinding& found,
                                          const DialectHyper& hyper) {
  std::vector<std::string> excluded;
  const auto require = [&](bool has, const std::string& choice) {
    if (!has) excluded.push_back(choice);
  };
  require(std::ranges::find(found.families, f.family) != found.families.end() && !found.coupled,
          "momentum: " + std::string(f.family == MomentumFamily::ema ? "ema" : "heavy ball"));
  require(!found.zeros_moved, "update of a matrix without a direction: its decay alone");
  require(!found.overflows, "update of finite numbers: finite");
  require(found.with_wrong_element() == nullptr, "update of every element: within the noise");
  if (found.matrices.empty()) return excluded;
  require(found.near, "orthogonal matrix: within the noise of its polynomials");
  if (!found.near) return excluded;

  std::vector<MuonChoice> possible = found.same;
  possible.push_back(found.choice);
  const auto takes = [&](const MuonChoice& choice) {
    const bool set = std::ranges::any_of(f.sets, [&](NewtonSchulzSet s) {
      return choice.polynomials.steps > 0 &&
             choice.polynomials.same_values({s, choice.polynomials.steps});
    });
    return set && std::ranges::find(f.directions, choice.direction) != f.directions.end();
  };
  require(std::ranges::any_of(possible, takes), "direction and polynomials");
  const bool single = f.input == MuonInput::fp32;
  require(single == (found.input == MuonInput::fp32), single ? "products: fp32" : "products: bf16");
  if (found.exact &&
      !single) {  // a compiled step has no roundings of these, unless its compiler is off
    require(f.products == found.products && f.input == found.input,
            "roundings of the products and of their input");
  } else if (!single && !f.compiled) {
    require(!found.must_be_exact, "roundings: these small matrices would have them");
  }
  const auto scales = [&](const FittingScale& s) {
    const bool known = std::ranges::find(f.scales, s.scaling) != f.scales.end();
    return known && (f.free_factor || s.factor == 1);
  };
  require(std::ranges::any_of(found.scales, scales), "scale");
  require(std::ranges::find(found.decays, "lr*wd") != found.decays.end(), "decay: lr*wd");
  if (!found.floors.empty())
    require(std::ranges::find(found.floors, std::pair{f.floor, f.eps}) != found.floors.end(),
            "floor of the norm");
  if (f.write == MuonWrite::single || f.compiled || f.free_factor) return excluded;
  const auto writes = [&](const auto& w) {
    const bool scale = std::ranges::find(f.scales, w.second) != f.scales.end();
    if (w.first == MuonWrite::in_sum && hyper.weight_decay != 0)
      return f.write == MuonWrite::in_sum && scale;
    return w.first == f.write && (scale || f.write == MuonWrite::rounded_update);
  };
  require(std::ranges::any_of(found.writes, writes), "bits of master");
  return excluded;
}

}  // namespace zeroproof::verification
