#include "common/step/muon_names.hpp"

#include <array>

namespace zeroproof {
namespace {

constexpr std::array<std::string_view, 2> families = {"ema", "heavy_ball"};
constexpr auto sets = [] {
  std::array<std::string_view, newton_schulz_sets.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = newton_schulz_sets[i].name;
  return names;
}();
constexpr std::array<std::string_view, 3> forms = {"fused", "scaled_factor", "scaled_product"};
constexpr std::array<std::string_view, 2> factor_formats = {"bf16", "fp32"};
constexpr std::array<std::string_view, 2> floors = {"clamp", "add"};
constexpr std::array<std::string_view, 5> scales = {"none", "original", "spectral",
                                                    "match_rms_adamw", "unit_rms_norm"};

template <class Choice>
std::string_view name_of(Choice choice) {
  return names_of(choice)[static_cast<std::size_t>(choice)];
}

}  // namespace

Span<const std::string_view> names_of(MomentumFamily) { return families; }
Span<const std::string_view> names_of(NewtonSchulzSet) { return sets; }
Span<const std::string_view> names_of(PolynomialForm) { return forms; }
Span<const std::string_view> names_of(MatrixFactors) { return factor_formats; }
Span<const std::string_view> names_of(NormFloor) { return floors; }
Span<const std::string_view> names_of(MuonScale) { return scales; }

std::string_view name(MomentumFamily family) { return name_of(family); }
std::string_view name(NewtonSchulzSet set) { return name_of(set); }
std::string_view name(PolynomialForm form) { return name_of(form); }
std::string_view name(MatrixFactors factors) { return name_of(factors); }
std::string_view name(NormFloor floor) { return name_of(floor); }
std::string_view name(MuonScale scale) { return name_of(scale); }
std::string_view name(MatrixOwners owners) { return name_of(owners); }
std::string_view name(MatrixTensorParallel choice) { return name_of(choice); }

}  // namespace zeroproof
