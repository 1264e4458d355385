#pragma once
// How zeroproof explain writes: 80 columns, headings in bold on a terminal.

#include <optional>
#include <string>
#include <vector>

#include "verification/cli/program/document_text.hpp"
#include "verification/cli/program/errata_text.hpp"
#include "verification/faults/catalogue.hpp"

namespace zeroproof::verification {

inline constexpr std::size_t explain_columns = 80;

std::string heading(const std::string& text);

/// "  label     first, second, third", continued under the first word.
std::string labelled(const std::string& label, const std::vector<std::string>& words,
                     const std::string& separator);

/// The words of a sentence, as labelled() expects them.
std::vector<std::string> words_of(const std::string& text);

/// The doc block of a function type.
std::string block_of(const std::string& type);

/// A fault and, below it, its effect.
std::string fault_text(const Fault& fault);

/// Those that are found in these phases.
std::string faults_of(const std::vector<Phase>& phases);

/// Inputs and results of a phase, with the formulas of the contract; with `all` its faults.
std::string explain_phase(Phase phase, bool all);

/// A rule of the contract or a label of the notes, and the places that cite it.
std::string explain_rule(const Passage& rule);
std::string explain_label(const Passage& label);

/// "erratum 46", "erratum46"; its claim and finding. All of them: their claims.
const Erratum* erratum_named(const std::string& text);
std::string explain_erratum(const Erratum& erratum);
std::string explain_errata();

/// The fault of that id, or nullptr; its effect and its place.
const Fault* find_fault(const std::string& id);
std::string explain_fault(const Fault& fault);

/// "stage2" or "stage 2"; the buffers of each rank, and the data that a step sends.
std::optional<int> stage_named(const std::string& text);
std::string explain_stage(int stage);

/// Every dialect in a line, and one of them; "" for a name that is none.
std::string explain_dialects();
std::string explain_dialect(const std::string& name);
std::vector<std::string> dialect_names();

/// An update rule of R6: state, operations, settings, recipes and cases, of muon also the polynomials; "" for a name
/// that is none.
std::string explain_update_rule(const std::string& name);
std::vector<std::string> update_rule_names();

/// All of zeroproof explain lbfgs, and its line in the list of everything.
std::string explain_lbfgs();
std::string lbfgs_line();

}  // namespace zeroproof::verification
