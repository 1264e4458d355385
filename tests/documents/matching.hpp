#pragma once
// Whether a program printed what a document says it prints.

#include <string>
#include <vector>

namespace zeroproof::tests {

/// A line without what may differ from run to run and from machine to machine: times, folders, blanks at its end.
std::string masked(const std::string& line, const std::vector<std::string>& folders);

/// The first line of `wanted` that `got` does not have where it should, or -1. A line "..." stands for any number of
/// lines; blank lines at the end do not count. Both are masked already.
int first_mismatch(const std::vector<std::string>& wanted, const std::vector<std::string>& got);

}  // namespace zeroproof::tests
