#pragma once

#include <string>

namespace zeroproof::tests {

/// Reports that the current case cannot run on this machine, with the reason. A case that neither asserts anything nor was
/// skipped fails, and a program whose cases were all skipped ends with 77, which CTest shows as skipped.
void skip_case(const std::string& why);

}  // namespace zeroproof::tests
