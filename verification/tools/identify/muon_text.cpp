#include "verification/tools/identify/muon_text.hpp"

#include <algorithm>
#include <cmath>

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

std::string matrices_text(const MuonFinding& found) {
  std::string text;
  for (const MuonMatrix& m : found.matrices) {
    text += fmt::format("    {:<11} {} x {}: distance {:.1e}, noise {:.1e}{}, scale {:.5g}\n",
                        m.tensor->name.empty() ? "the matrix" : m.tensor->name, m.tensor->rows,
                        m.tensor->columns, m.distance, m.noise,
                        m.exact ? ", with its roundings" : "", m.scale);
  }
  const auto other = [&](std::int64_t count, const char* what) {
    return count == 0 ? "" : fmt::format("    {} more: {}\n", count, what);
  };
  return text + other(found.zeros, "the direction is zero") +
         other(found.tiny, "a norm below 1e-4") +
         other(found.large, "too large, or no finite norm") +
         other(found.unclear, "roundings as large as the result, as of a low rank");
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

std::string muon_verdict(const MuonFinding& found) {
  std::string text = "no dialect: ";
  if (found.families.empty()) text += "the momentum is neither ema nor heavy ball; ";
  if (found.zeros_moved) text += "a matrix without a direction moved; ";
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
