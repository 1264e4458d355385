#pragma once

#include <string>

namespace zeroproof::verification {

/// Folder with verification/model/*.txt: share/zeroproof of an installation, else the checkout this program was built
/// from.
std::string source_dir();

}  // namespace zeroproof::verification
