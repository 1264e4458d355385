#include "verification/tools/identify/muon_text.hpp"

#include <algorithm>
#include <cmath>

#include "common/step/muon_names.hpp"
#include "verification/report/format.hpp"

namespace zeroproof::verification {
namespace {

template <class Items, class Text>
std::string listed(const Items& items, const char* between, const Text& text) {
  std::string all;
  for (const auto& item : items) all += (all.empty() ? "" : between) + text(item);
  return all;
}

std::string choice_text(const MuonChoice& choice) {
  return direction_text(choice.direction) + " with " + polynomials_text(choice.polynomials);
}

std::string line(const std::string& label, const std::string& text) {
  return fmt::format("    {:<11} {}\n", label, text);
}

std::string family_text(MomentumFamily family) {
  return family == MomentumFamily::ema ? "ema" : "heavy ball";
}

std::string scale_text(const FittingScale& scale) {
  const std::string text = scaling_text(scale.scaling);
  return scale.factor == 1 ? text : fmt::format("{:.4g} * {}", scale.factor, text);
}

/// Scales of factor 1, or all.
std::string scales_text(const std::vector<FittingScale>& scales) {
  std::vector<FittingScale> shown;
  for (const FittingScale& scale : scales) {
    if (shown.empty() || shown.front().factor != 1 || scale.factor == 1) shown.push_back(scale);
  }
  return listed(shown, ", or ", scale_text) +
         (shown.size() > 1 ? ", which it does not distinguish" : "");
}

/// "w", or "the matrix" without a name.
std::string name_of(const StepTensor& tensor) {
  return tensor.name.empty() ? "the matrix" : tensor.name;
}

std::string matrices_text(const MuonFinding& found) {
  std::string text;
  for (const MuonMatrix& m : found.matrices) {
    text += fmt::format("    {:<11} {} x {}: distance {:.1e}, noise {:.1e}{}, scale {:.5g}\n",
                        name_of(*m.tensor), m.tensor->rows, m.tensor->columns, m.distance, m.noise,
                        m.exact ? ", with its roundings" : "", m.scale);
  }
  const auto other = [&](std::int64_t count, const char* what) {
    return count == 0 ? "" : fmt::format("    {} more: {}\n", count, what);
  };
  return text + other(found.zeros, "the direction is zero") +
         other(found.tiny, "a norm below 1e-4") +
         other(found.large, "too large, or no finite norm") +
         other(found.unclear, "roundings as large as the result, as of a low rank") +
         other(found.nonfinite, "NaN or an infinity in the gradient or the parameter");
}

/// "" for the given scale.
std::string wrong_scale(const DialectHyper& h, const MuonFinding& found) {
  const GivenMuon& given = h.muon;
  const auto is_given = [&](const FittingScale& s) {
    return !given.scale || s.scaling == MuonScaling{*given.scale};
  };
  const auto fits = [&](const FittingScale& s) { return s.factor == 1 && is_given(s); };
  if (std::ranges::any_of(found.scales, fits)) return "";
  for (const FittingScale& s : found.scales) {
    if (s.factor == 1) return "as if the scale were " + scaling_text(s.scaling);
  }
  for (const std::size_t parts : {2U, 3U, 4U, 8U}) {
    for (const bool rows : {true, false}) {
      const auto of_part = [&](std::size_t extent) { return (extent + parts - 1) / parts; };
      const bool all =
          given.scale && std::ranges::all_of(found.matrices, [&](const MuonMatrix& m) {
            const double want =
                given.scale_factor *
                scale_of({*given.scale}, rows ? of_part(m.tensor->rows) : m.tensor->rows,
                         rows ? m.tensor->columns : of_part(m.tensor->columns));
            return std::fabs(m.scale / want - 1) <= std::max(0.01, 2 * m.distance);
          });
      const bool other =
          given.scale && std::ranges::any_of(found.matrices, [&](const MuonMatrix& m) {
            const double whole =
                given.scale_factor * scale_of({*given.scale}, m.tensor->rows, m.tensor->columns);
            return std::fabs(m.scale / whole - 1) > std::max(0.01, 2 * m.distance);
          });
      if (all && other)
        return fmt::format("as if the scale were that of 1/{} of the {}", parts,
                           rows ? "rows" : "columns");
    }
  }
  for (const FittingScale& s : found.scales) {
    if (!is_given(s)) continue;
    const double decay = s.factor * h.lr * h.weight_decay;
    const bool also_decay = decay != 0 && std::ranges::all_of(found.matrices, [&](const auto& m) {
                              return std::fabs(m.decay - decay) <= m.decay_error;
                            });
    if (also_decay) return fmt::format("as if lr were {:.4g}", s.factor * h.lr);
    return fmt::format(
        "as if the updates were multiplied by {:.4g}: clipped after Newton-Schulz, or another rate",
        s.factor);
  }
  const auto off = [&](const MuonMatrix& m) {
    const MuonScaling scaling = {given.scale.value_or(MuonScale::none)};
    const double want = given.scale_factor * scale_of(scaling, m.tensor->rows, m.tensor->columns);
    return given.scale ? std::fabs(m.scale / want - 1) : 0;
  };
  const MuonMatrix& m = *std::ranges::max_element(found.matrices, {}, off);
  return fmt::format("the scale is none that is known: {:.5g} of {} rows and {} columns in {}",
                     m.scale, m.tensor->rows, m.tensor->columns, name_of(*m.tensor));
}

}  // namespace

std::string direction_text(MuonDirection direction) {
  constexpr const char* texts[] = {"momentum", "Nesterov", "Nesterov, corrected for bias"};
  return texts[static_cast<int>(direction)];
}

std::string products_text(MuonProducts products) {
  constexpr const char* texts[] = {
      "sums rounded once (addmm)", "b*A + (c*A) @ A, each operation rounded",
      "b*A + c*(A @ A), each operation rounded", "addmm of b*A and c*A, both rounded", "fp32"};
  return texts[static_cast<int>(products)];
}

std::string input_text(MuonInput input) {
  constexpr const char* texts[] = {"bf16 before the norm, which is bf16",
                                   "bf16 before the norm, which is not rounded",
                                   "bf16 after the norm", "fp32"};
  return texts[static_cast<int>(input)];
}

std::string scaling_text(MuonScaling scaling) {
  switch (scaling.scale) {
    case MuonScale::original:
      return scaling.exchanged ? "sqrt(max(1, columns/rows))"
                               : "original, sqrt(max(1, rows/columns))";
    case MuonScale::spectral:
      return "spectral, sqrt(max(rows, columns))";
    case MuonScale::match_rms_adamw:
      return "match_rms_adamw, 0.2*sqrt(max(rows, columns))";
    case MuonScale::unit_rms_norm:
      return scaling.exchanged ? "sqrt(columns/rows)" : "unit_rms_norm, sqrt(rows/columns)";
    case MuonScale::none:
      break;
  }
  return "none";
}

std::string write_text(MuonWrite write) {
  constexpr const char* texts[] = {"p*(1 - lr*wd) - (lr*z)*O", "p + (-lr*wd)*p - lr*(z*O)",
                                   "p*(1 - lr*wd) - lr*bf16(z*O)", "p - ((lr*z)*O + (lr*wd)*p)",
                                   "O is fp32: its form is not visible"};
  return texts[static_cast<int>(write)];
}

std::string floor_text(NormFloor floor, double eps) {
  return floor == NormFloor::add ? fmt::format("norm + {:g}", eps)
                                 : fmt::format("max(norm, {:g})", eps);
}

std::string polynomials_text(const Polynomials& polynomials) {
  if (polynomials.steps == 0) return "no Newton-Schulz";
  const auto set = static_cast<std::size_t>(polynomials.set);
  return fmt::format("{}, {} {}", newton_schulz_sets[set].name, polynomials.steps,
                     polynomials.steps == 1 ? "step" : "steps");
}

std::vector<std::pair<std::string, std::string>> muon_choices(const MuonFormula& f) {
  const auto set_name = [](NewtonSchulzSet set) {
    return std::string(newton_schulz_sets[static_cast<std::size_t>(set)].name);
  };
  return {
      {"momentum", family_text(f.family)},
      {"direction", listed(f.directions, ", or ", direction_text)},
      {"polynomials", listed(f.sets, ", ", set_name)},
      {"products", f.compiled ? "bf16, fused by a compiler" : products_text(f.products)},
      {"input", input_text(f.input)},
      {"floor", floor_text(f.floor, f.eps)},
      {"scale", listed(f.scales, "; ", scaling_text) + (f.free_factor ? "; times a setting" : "")},
      {"master", write_text(f.write)}};
}

std::string muon_text(const MuonFinding& found) {
  std::string text = "orthogonal matrix\n" + matrices_text(found);
  text += line("momentum", found.families.empty()
                               ? "neither ema nor heavy ball"
                               : (listed(found.families, " or ", family_text)) +
                                     (found.coupled ? ", of the gradient with weight decay" : ""));
  if (found.matrices.empty()) return text;
  if (!found.near) {
    return text +
           line("nearest", fmt::format("{}, distance {:.1e}, noise {:.1e}",
                                       choice_text(found.choice), found.distance(), found.noise()));
  }
  text += line("direction", direction_text(found.choice.direction));
  text += line("polynomials", polynomials_text(found.choice.polynomials));
  for (const MuonChoice& same : found.same) text += line("  or", choice_text(same));
  if (found.next) {
    text += line("  next", fmt::format("{}, distance {:.1e}", choice_text(found.next->choice),
                                       found.next->distance));
  }
  const bool single = found.input == MuonInput::fp32;
  const char* unseen = "bf16; its roundings are not visible";
  text += line("products", found.exact || single ? products_text(found.products) : unseen);
  text += line("input", found.exact || single ? input_text(found.input) : unseen);
  text += line("floor", found.floors.empty() ? "not visible: no norm is near 1e-7"
                                             : listed(found.floors, ", or ", [](const auto& f) {
                                                 return floor_text(f.first, f.second);
                                               }));
  text += line("scale", found.scales.empty() ? "none that is known" : scales_text(found.scales));
  text += line(
      "decay",
      found.decays.empty()
          ? fmt::format("none that is known: {:.4g} of the parameter", found.matrices.front().decay)
          : listed(found.decays, ", or ", [](const std::string& s) { return s; }));
  const auto bits = [](const auto& write) {
    return write_text(write.first) +
           (write.first == MuonWrite::rounded_update ? "" : ", z: " + scaling_text(write.second));
  };
  return text + line("master", found.writes.empty()
                                   ? "its bits are not those of a known form with O in bf16"
                                   : listed(found.writes, ", or ", bits));
}

std::vector<std::string> muon_mistakes(const RecordedStep& step, const MuonFinding& found) {
  const GivenMuon& given = step.hyper.muon;
  std::vector<std::string> mistakes;
  if (found.coupled)
    mistakes.emplace_back("as if the decay were added to the gradient");
  else if (found.families.empty())
    mistakes.emplace_back("the momentum is neither ema nor heavy ball");
  else if (given.family && std::ranges::find(found.families, *given.family) == found.families.end())
    mistakes.push_back("as if the momentum were that of " + family_text(found.families.front()));
  if (found.zeros_moved) mistakes.emplace_back("a matrix without a direction moved");
  if (found.overflows) mistakes.emplace_back("a finite parameter became infinite or NaN");
  if (found.matrices.empty()) return mistakes;
  const MuonMatrix* wrong = found.with_wrong_element();
  const bool is_given = given.steps && given.coefficients && allows(given, found.choice);
  if (!found.near && !found.hint.empty()) {
    mistakes.push_back(found.hint);
  } else if (!found.near && !is_given) {
    mistakes.push_back(
        fmt::format("no known polynomials: the nearest are {}, {:.3g} times their noise away",
                    choice_text(found.choice), found.distance() / found.noise()));
  } else if (wrong != nullptr && (found.near || wrong->element > 8 * wrong->distance)) {
    mistakes.push_back(
        fmt::format("as if single elements were not those of the update: one of {} is {:.3g} times "
                    "its noise off",
                    name_of(*wrong->tensor), wrong->element / wrong->noise));
  } else if (const auto negative = std::ranges::find_if(
                 found.matrices, [](const MuonMatrix& m) { return m.scale < 0; });
             negative != found.matrices.end()) {
    mistakes.push_back("the update of " + name_of(*negative->tensor) + " has the wrong sign");
  } else if (!found.near) {
    mistakes.push_back(
        fmt::format("the update is {:.3g} times {} away", found.distance() / found.noise(),
                    found.input == MuonInput::fp32 ? "the noise of fp32" : "its noise"));
  }
  if (!found.near) return mistakes;
  std::vector<MuonChoice> possible = found.same;
  possible.push_back(found.choice);
  if (std::ranges::none_of(possible, [&](const MuonChoice& c) { return allows(given, c); })) {
    const MuonChoice& c = found.choice;
    const bool nesterov = c.direction != MuonDirection::momentum;
    if (c.polynomials.steps == 0)
      mistakes.emplace_back("as if Newton-Schulz were omitted");
    else if (given.nesterov && *given.nesterov != nesterov)
      mistakes.push_back(std::string("as if nesterov were ") + (nesterov ? "on" : "off"));
    else if (given.steps && allows(given, {c.direction, {c.polynomials.set, *given.steps}}))
      mistakes.push_back(fmt::format("as if Newton-Schulz had {} steps", c.polynomials.steps));
    else
      mistakes.push_back("as if the polynomials were " + polynomials_text(c.polynomials));
  }
  const MatrixFactors factors =
      found.input == MuonInput::fp32 ? MatrixFactors::fp32 : MatrixFactors::bf16;
  if (given.factors.value_or(factors) != factors)
    mistakes.push_back(fmt::format("as if Newton-Schulz had factors of {}", name(factors)));
  if (std::string scale = wrong_scale(step.hyper, found); !scale.empty())
    mistakes.push_back(std::move(scale));
  if (found.decays.empty()) {
    const double product = step.hyper.lr * step.hyper.weight_decay;
    const MuonMatrix& m = *std::ranges::max_element(found.matrices, {}, [&](const MuonMatrix& one) {
      return std::fabs(one.decay - product) / one.decay_error;
    });
    mistakes.push_back(fmt::format("the decay is none that is known: {:.4g} of the parameter in {}",
                                   m.decay, name_of(*m.tensor)));
  }
  if (!found.decays.empty() && found.decays.front() != "lr*wd")
    mistakes.push_back("as if the decay were " + found.decays.front());
  return mistakes;
}

std::string muon_verdict(const MuonFinding& found) {
  std::string text = "no dialect: ";
  if (found.families.empty()) text += "the momentum is neither ema nor heavy ball; ";
  if (found.zeros_moved) text += "a matrix without a direction moved; ";
  if (const MuonMatrix* m = found.with_wrong_element(); m != nullptr && found.near)
    text += fmt::format("an element of {} is {:.3g} times the noise off; ", name_of(*m->tensor),
                        m->element / m->noise);
  if (found.overflows) text += "a finite parameter became infinite or NaN; ";
  if (!found.near) {
    text +=
        fmt::format("no polynomials give the update: the nearest are {} times their noise away; ",
                    fmt::format("{:.3g}", found.noise() > 0 ? found.distance() / found.noise()
                                                            : found.distance()));
  } else if (found.choice.polynomials.steps == 0) {
    text += "the update is the momentum itself, without Newton-Schulz; ";
  }
  if (found.near && found.scales.empty()) text += "the scale is none that is known; ";
  if (found.near && found.decays.empty()) text += "the decay is none that is known; ";
  if (!found.hint.empty()) text += found.hint + "; ";
  text.resize(text.size() - 2);
  return (text == "no dialect" ? "no dialect has all of these choices" : text) + "\n";
}

}  // namespace zeroproof::verification
