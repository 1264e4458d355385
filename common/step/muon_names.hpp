#pragma once
// Names of the settings of the rule muon (R28), as in configuration files and reports.

#include <string_view>

#include "common/base/span.hpp"
#include "common/contracts/muon.hpp"
#include "common/layout/matrix_owners.hpp"

namespace zeroproof {

std::string_view name(MomentumFamily family);
std::string_view name(NewtonSchulzSet set);
std::string_view name(PolynomialForm form);
std::string_view name(MatrixFactors factors);
std::string_view name(NormFloor floor);
std::string_view name(MuonScale scale);
std::string_view name(MatrixOwners owners);
std::string_view name(MatrixTensorParallel choice);

/// All names, in the order of the enumerators.
Span<const std::string_view> names_of(MomentumFamily);
Span<const std::string_view> names_of(NewtonSchulzSet);
Span<const std::string_view> names_of(PolynomialForm);
Span<const std::string_view> names_of(MatrixFactors);
Span<const std::string_view> names_of(NormFloor);
Span<const std::string_view> names_of(MuonScale);

}  // namespace zeroproof
