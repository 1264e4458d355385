#include "verification/tools/identify/ratio.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "verification/report/format.hpp"
#include "verification/tools/identify/elements.hpp"
#include "verification/tools/identify/formula_text.hpp"
#include "verification/tools/identify/grid.hpp"

namespace zeroproof::verification {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

/// Squares of fp32 are exact in fp64; the sum has 11 bits more on x86.
double norm_of(Span<const float> values) {
  long double sum = 0;
  for (const float x : values) sum += double{x} * double{x};
  return static_cast<double>(std::sqrt(sum));
}

/// ratio = c * per_factor, N_u = |u| * per_update, both for the update without the rate.
struct Units {
  double per_factor = 1, per_update = 1;
};

Units units_of(const LambMaster& form, const DialectHyper& hyper) {
  const MasterScalars s = master_scalars(hyper, form.corrections);
  const double written =
      form.write == LambWrite::rate || form.write == LambWrite::rate_fused ? s.lr : 1;
  if (form.step == LambStep::scaled) return {written, 1 / double{s.lr}};
  if (form.step == LambStep::corrected) return {written / s.lr, 1};
  // c has the bias correction that is left out of u. A folded one is in the norm as well.
  return {written / s.folded_lr, form.denominator == Denominator::folded ? s.fold : 1};
}

double ratio_of_norms(double weight, double update) {
  return weight == 0 || update == 0 ? 1 : weight / update;
}

/// [Bound:norm] for p = 2, as |ln|, for any number of elements; twice, and eight roundings more.
double bound_of(std::size_t n) {
  constexpr double u = 0x1p-24;
  const auto count = static_cast<double>(std::max<std::size_t>(n, 1));
  return 1.01 * (2 * ((count + 7 + std::log(count)) / 2 + 10) + 8) * u;
}

double limited(const RatioRule& rule, double weight, double of_norms) {
  if (weight > rule.most_weight) of_norms *= rule.most_weight / weight;
  return std::clamp(of_norms, rule.least, rule.most);
}

/// An element of a tensor: which factors give it its new parameter?
class Element {
 public:
  Element(LambWrite form, float lr, float p, float u, float after)
      : form_(form), lr_(lr), p_(p), u_(u), after_(after) {}

  /// The part of `in` that gives the new parameter; low > high if there is none.
  FactorRange within(FactorRange in) const {
    if (is(in.low) && is(in.high)) return in;
    if (u_ == 0 || !std::isfinite(u_) || !std::isfinite(p_))
      return is(in.low) ? in : FactorRange{1, 0};
    // Results move in one direction: those before the new parameter, equal to it, beyond it.
    const auto first = [&](auto reached) {
      std::uint64_t low = bits_of(in.low), high = std::uint64_t{bits_of(in.high)} + 1;
      while (low < high) {
        const std::uint64_t middle = low + (high - low) / 2;
        if (reached(sign() * value(std::bit_cast<float>(static_cast<std::uint32_t>(middle))))) {
          high = middle;
        } else {
          low = middle + 1;
        }
      }
      return low;
    };
    const float goal = sign() * after_;
    const std::uint64_t low = first([&](float x) { return x <= goal; });
    const std::uint64_t end = first([&](float x) { return x < goal; });
    if (low >= end) return {1, 0};
    return {std::bit_cast<float>(static_cast<std::uint32_t>(low)),
            std::bit_cast<float>(static_cast<std::uint32_t>(end - 1))};
  }

 private:
  float value(float c) const { return lamb_master(form_, p_, u_, c, lr_); }
  bool is(float c) const { return value(c) == after_; }
  float sign() const { return u_ > 0 ? 1.0F : -1.0F; }

  LambWrite form_;
  float lr_, p_, u_, after_;
};

/// The elements of a tensor under one formula.
class Elements {
 public:
  Elements(const LambMaster& form, const DialectHyper& hyper, const StepTensor& tensor)
      : form_(form.write),
        lr_(static_cast<float>(hyper.lr)),
        before_(before(tensor, "master")),
        after_(after(tensor, "master")),
        updates_(lamb_updates(form, hyper, before_, after(tensor, "exp_avg"),
                              after(tensor, "exp_avg_sq"))) {}

  std::size_t size() const { return updates_.size(); }
  Element at(std::size_t i) const { return {form_, lr_, before_[i], updates_[i], after_[i]}; }

  /// The range that most of up to 255 elements agree on, then all elements that do not contradict.
  FactorRange solved() const {
    std::vector<FactorRange> ranges;
    const std::size_t stride = size() / 256 + 1;
    for (std::size_t i = 0; i < size(); i += stride) {
      const FactorRange range = at(i).within({});
      if (range.low <= range.high) ranges.push_back(range);
    }
    std::vector<std::pair<float, int>> ends;  // an end comes after a beginning at the same float
    for (const FactorRange& range : ranges) {
      ends.emplace_back(range.low, -1);
      ends.emplace_back(range.high, 1);
    }
    std::ranges::sort(ends);
    FactorRange most;
    int open = 0, best = 0;
    for (std::size_t k = 0; k < ends.size(); ++k) {
      open -= ends[k].second;
      if (open <= best) continue;
      best = open;
      most.low = ends[k].first;
      const auto closes = std::find_if(ends.begin() + static_cast<std::ptrdiff_t>(k), ends.end(),
                                       [](const auto& end) { return end.second == 1; });
      most.high = closes->first;
    }
    if (10 * static_cast<std::size_t>(best) < 9 * ranges.size()) return most;
    for (std::size_t i = 0; i < size(); ++i) {
      const FactorRange narrower = at(i).within(most);
      if (narrower.low <= narrower.high) most = narrower;
    }
    return most;
  }

 private:
  LambWrite form_;
  float lr_;
  const std::vector<float>&before_, &after_;
  std::vector<float> updates_;
};

/// Norms of one tensor, for every origin that a ratio may have.
struct Norms {
  double weight = 0, update = 0;
  std::size_t numel = 0;
};

/// The origins of ratios in one step.
class Origins {
 public:
  Origins(const LambMaster& form, const RecordedStep& step)
      : form_(form), step_(step), units_(units_of(form, step.hyper)) {
    double weight = 0, update = 0;
    for (const StepTensor& tensor : step.tensors) {
      norms_.push_back(norms(tensor, form, step.hyper, 0, tensor.numel()));
      weight = std::hypot(weight, norms_.back().weight);
      update = std::hypot(update, norms_.back().update);
    }
    all_ = {weight, update, static_cast<std::size_t>(step.numel())};
  }

  /// Elements [begin, end) of a tensor have the factors of `range`.
  RatioFinding finding(std::size_t index, std::size_t begin, std::size_t end,
                       const FactorRange& range) const {
    const StepTensor& tensor = step_.tensors[index];
    RatioFinding found;
    found.tensor = tensor.name;
    found.begin = begin;
    found.end = end;
    found.low = range.low * units_.per_factor;
    found.high = range.high * units_.per_factor;
    found.of_norms = ratio_of_norms(norms_[index].weight, norms_[index].update);
    found.weight_norm = norms_[index].weight;
    found.bound = bound_of(tensor.numel());
    found.decays = decouples(step_.hyper);
    found.part = begin != 0 || end != tensor.numel();
    found.origin = origin(index, found);
    return found;
  }

 private:
  Norms norms(const StepTensor& tensor, const LambMaster& form, const DialectHyper& hyper,
              std::size_t begin, std::size_t end) const {
    const auto part = [&](const std::vector<float>& all) {
      return Span<const float>(all).subspan(begin, end - begin);
    };
    const Span<const float> master = part(before(tensor, "master"));
    const std::vector<float> u = lamb_updates(form, hyper, master, part(after(tensor, "exp_avg")),
                                              part(after(tensor, "exp_avg_sq")));
    return {norm_of(master), norm_of(u) * units_of(form, hyper).per_update, end - begin};
  }

  std::string origin(std::size_t index, const RatioFinding& found) const {
    if (found.low == 0 && std::isinf(found.high)) return "any: no element moves";
    if (found.of_its_norms()) {
      const bool zero = norms_[index].weight == 0 || norms_[index].update == 0;
      return zero ? "1, since a norm is 0" : "norms of the tensor";
    }
    const StepTensor& tensor = step_.tensors[index];
    const auto is = [&](double ratio, std::size_t n) {
      return found.distance(ratio) <= bound_of(n);
    };
    const auto of = [&](const Norms& n) { return is(ratio_of_norms(n.weight, n.update), n.numel); };
    const std::size_t n = tensor.numel();
    const double right = found.of_norms, rate = static_cast<float>(step_.hyper.lr);
    if (found.part && of(norms(tensor, form_, step_.hyper, found.begin, found.end)))
      return "norms of these elements alone: of a shard";
    if (is(1, 1)) return right > 1 ? "1: no ratio, or a limit of 1" : "1: no ratio";
    if (found.low == 0) return "0: the tensor stays where it is";
    if (of(all_)) return "norms of all tensors together";
    if (is(limited({.most_weight = 10}, norms_[index].weight, right), n))
      return "norm of the weights limited to 10";
    if (is(limited({.least = 0.01, .most = 10}, 0, right), n)) return "limited to 0.01 .. 10";
    DialectHyper plain = step_.hyper;
    plain.weight_decay = 0;
    if (of(norms(tensor, form_, plain, 0, n))) return "norm of the update without its decay";
    const LambMaster biased{form_.corrections, form_.root, Denominator::uncorrected,
                            LambStep::plain};
    if (of(norms(tensor, biased, step_.hyper, 0, n)))
      return "norm of the update without bias correction";
    if (is(right / rate, n)) return "norms of the tensor, without the learning rate";
    if (is(right * rate, n)) return "norms of the tensor, with the learning rate twice";
    if (is(1 / right, n)) return "norms of the tensor, inverted";
    if (is(right * right, n)) return "squared norms of the tensor, without the roots";
    if (is(ratio_of_norms(norms_[index].weight, norm_of(tensor.grad)), n))
      return "norm of the gradient instead of the update";
    return narrow_origin(index, found);
  }

  /// Origins of which there are many: only for a ratio that is known to four digits.
  std::string narrow_origin(std::size_t index, const RatioFinding& found) const {
    const StepTensor& tensor = step_.tensors[index];
    if (found.bound > 1e-2 || !(found.high <= found.low * (1 + 1e-4))) return "unknown";
    for (std::size_t other = 0; other < norms_.size(); ++other) {
      const Norms& n = norms_[other];
      if (found.distance(ratio_of_norms(n.weight, n.update)) <= bound_of(n.numel))
        return "norms of tensor " + step_.tensors[other].name;
    }
    for (std::size_t parts = 2; parts <= 8; ++parts) {
      const std::size_t size = (tensor.numel() + parts - 1) / parts;
      for (std::size_t begin = 0; begin < tensor.numel(); begin += size) {
        const std::size_t end = std::min(begin + size, tensor.numel());
        const Norms n = norms(tensor, form_, step_.hyper, begin, end);
        if (found.distance(ratio_of_norms(n.weight, n.update)) <= bound_of(n.numel)) {
          return fmt::format("norms of elements {} to {} alone: of a shard", begin, end - 1);
        }
      }
    }
    return "unknown";
  }

  LambMaster form_;
  const RecordedStep& step_;
  Units units_;
  std::vector<Norms> norms_;
  Norms all_;
};

}  // namespace

std::vector<float> lamb_updates(const LambMaster& form, const DialectHyper& hyper,
                                Span<const float> master, Span<const float> exp_avg,
                                Span<const float> exp_avg_sq) {
  const MasterScalars scalars = master_scalars(hyper, form.corrections);
  std::vector<float> u(master.size());
  for (std::size_t i = 0; i < u.size(); ++i)
    u[i] = lamb_update(form, decouples(hyper), master[i], exp_avg[i], exp_avg_sq[i], scalars);
  return u;
}

float lamb_factor(const LambFormula& formula, const DialectHyper& hyper, Span<const float> master,
                  Span<const float> updates) {
  const Units units = units_of(formula.master, hyper);
  const double weight = norm_of(master), update = norm_of(updates);
  const RatioRule& rule = formula.ratio;
  if (weight == 0 || update == 0) return static_cast<float>(1 / units.per_factor);
  if (rule.exact) return static_cast<float>(double{static_cast<float>(hyper.lr)} * weight / update);
  if (!decouples(hyper) && rule.optional) return static_cast<float>(1 / units.per_factor);
  return static_cast<float>(limited(rule, weight, weight / (update * units.per_update)) /
                            units.per_factor);
}

FactorRange solve_factor(const LambMaster& form, const DialectHyper& hyper,
                         const StepTensor& tensor) {
  return Elements(form, hyper, tensor).solved();
}

double RatioFinding::distance(double ratio) const {
  if (ratio >= low && ratio <= high) return 0;
  if (!(ratio > 0)) return infinity;
  if (ratio < low) return std::log(low / ratio);
  return high > 0 ? std::log(ratio / high) : infinity;
}

std::vector<RatioFinding> ratios_of(const LambMaster& form, const RecordedStep& step) {
  const Origins origins(form, step);
  std::vector<RatioFinding> found;
  for (std::size_t k = 0; k < step.tensors.size(); ++k) {
    const StepTensor& tensor = step.tensors[k];
    if (tensor.numel() == 0) continue;
    found.push_back(origins.finding(k, 0, tensor.numel(), solve_factor(form, step.hyper, tensor)));
  }
  return found;
}

std::vector<RatioFinding> ratios_of_parts(const LambMaster& form, const RecordedStep& step) {
  struct Part {
    std::size_t tensor, begin, end;
    FactorRange range;
  };
  std::vector<Part> parts;
  for (std::size_t k = 0; k < step.tensors.size(); ++k) {
    const Elements elements(form, step.hyper, step.tensors[k]);
    const std::size_t first = parts.size();
    Part part{k, 0, 0, {}};
    for (std::size_t i = 0; i < elements.size(); ++i, part.end = i) {
      FactorRange range = elements.at(i).within(part.range);
      if (!(range.low <= range.high)) {
        parts.push_back(part);
        part = {k, i, i, {}};
        range = elements.at(i).within({});
        const bool short_part = parts.back().end - parts.back().begin < 8;
        if (!(range.low <= range.high) || short_part || parts.size() - first >= 16) return {};
      }
      part.range = range;
    }
    if (elements.size() != 0) parts.push_back(part);
  }
  const Origins origins(form, step);
  std::vector<RatioFinding> found;
  for (const Part& part : parts)
    found.push_back(origins.finding(part.tensor, part.begin, part.end, part.range));
  return found;
}

bool allows(const RatioRule& rule, const RatioFinding& found) {
  if (found.part) return false;
  const double bound = rule.exact ? 1.01 * 0x1p-24 : found.bound;
  const auto is = [&](double ratio) { return found.distance(ratio) <= bound; };
  const double ratio = limited(rule, found.weight_norm, found.of_norms);
  return is(ratio) || (rule.clip && is(std::min(ratio, 1.0))) ||
         (rule.optional && !found.decays && is(1));
}

std::string ratio_text(const RatioRule& rule) {
  std::string text = "N_w/N_u";
  if (rule.most_weight < 1e300) text = fmt::format("min(N_w, {})/N_u", rule.most_weight);
  if (rule.most < 1e300) text += fmt::format(", limited to {} .. {}", rule.least, rule.most);
  if (rule.clip) text += "; an option limits it to 1";
  if (rule.optional) text += "; without decay 1, or this by an option";
  return text + (rule.exact ? "; the norms are correctly rounded" : "") + "; 1 if a norm is 0";
}

}  // namespace zeroproof::verification
