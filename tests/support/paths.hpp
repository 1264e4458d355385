#pragma once
// Paths of this checkout and its build, in one file, so that no other test is compiled again when
// they move.

#include <string>

namespace zeroproof::tests {

std::string build_folder();   ///< with the programs
std::string source_folder();  ///< of the checkout
std::string sample_text();    ///< a text that does not change when the project does

}  // namespace zeroproof::tests
