#pragma once
// papers/errata.md as rows, from the copy in this program.

#include <string>
#include <vector>

namespace zeroproof::verification {

/// A claim in circulation, and the finding on it. Markdown.
struct Erratum {
  int number = 0;
  std::string section;  ///< "Norm and clipping"
  std::string claim;
  std::string finding;
  std::string shown_by;  ///< labels, rules, tests, faults, public sources
};

/// In the order of the document, which is that of the numbers.
const std::vector<Erratum>& errata();

}  // namespace zeroproof::verification
