#pragma once

#include <string>

namespace zeroproof::verification {

/// Folder of the project this program was built from: where its own text comes from.
std::string source_dir();

}  // namespace zeroproof::verification
