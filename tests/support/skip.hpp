#pragma once

#include <string>

namespace zeroproof::tests {

/// Says that the running case cannot be run on this machine, and why. A case that neither asserts anything nor was
/// skipped fails, and a program whose cases were all skipped ends with 77, which CTest shows as skipped.
void skip_case(const std::string& why);

}  // namespace zeroproof::tests
