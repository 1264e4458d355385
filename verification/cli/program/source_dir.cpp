#include "verification/cli/program/source_dir.hpp"

namespace zeroproof::verification {

std::string source_dir() { return ZP_SOURCE_DIR; }

}  // namespace zeroproof::verification
