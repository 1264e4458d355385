#pragma once
// How zeroproof explain writes: 80 columns, headings in bold on a terminal.

#include <string>
#include <vector>

#include "cuda/faults/catalogue.hpp"

namespace zeroproof::verification {

inline constexpr std::size_t explain_columns = 80;

std::string heading(const std::string& text);

/// "  label     first, second, third", continued under the first word.
std::string labelled(const std::string& label, const std::vector<std::string>& words,
                     const std::string& separator);

/// The doc block of a function type.
std::string block_of(const std::string& type);

/// A fault and below it what it does.
std::string fault_text(const cuda::Fault& fault);

/// All of zeroproof explain lbfgs, and its line in the list of everything.
std::string explain_lbfgs();
std::string lbfgs_line();

}  // namespace zeroproof::verification
