#pragma once
// Comparison of the output of a program with the output shown in a document.

#include <string>
#include <vector>

namespace zeroproof::tests {

/// A line with times and folders replaced and without blanks at its end.
std::string masked(const std::string& line, const std::vector<std::string>& folders);

/// The first line of `wanted` that does not match `got`, or -1. A line "..." matches any number of
/// lines; blank lines at the end are ignored. Both are masked already.
int first_mismatch(const std::vector<std::string>& wanted, const std::vector<std::string>& got);

}  // namespace zeroproof::tests
