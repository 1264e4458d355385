#pragma once
// The choices of Muon in words.

#include <string>
#include <utility>
#include <vector>

#include "verification/tools/identify/muon.hpp"

namespace zeroproof::verification {

std::string direction_text(MuonDirection direction);
std::string products_text(MuonProducts products);
std::string input_text(MuonInput input);
std::string scaling_text(MuonScaling scaling);
std::string write_text(MuonWrite write);
std::string floor_text(NormFloor floor, double eps);
/// "simple, 5 steps".
std::string polynomials_text(const Polynomials& polynomials);

/// Labels and choices of a library.
std::vector<std::pair<std::string, std::string>> muon_choices(const MuonFormula& formula);

/// What the step has that its settings do not say, or no Muon has, the cause first: "as if nesterov were off". Empty if
/// its update is right.
std::vector<std::string> muon_mistakes(const RecordedStep& step, const MuonFinding& found);

/// The choices of a step, a line each, with what it does not show.
std::string muon_text(const MuonFinding& found);

/// Of a step without a dialect: what no choice gives. Ends with a newline.
std::string muon_verdict(const MuonFinding& found);

}  // namespace zeroproof::verification
