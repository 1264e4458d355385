#include "tests/support/paths.hpp"

namespace zeroproof::tests {

std::string build_folder() { return ZP_BUILD_DIR; }
std::string source_folder() { return ZP_SOURCE_DIR; }
std::string sample_text() { return source_folder() + "/verification/model/sample_text.txt"; }

}  // namespace zeroproof::tests
