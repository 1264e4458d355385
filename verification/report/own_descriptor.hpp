#pragma once
// Names of what this process has open already: /dev/stdout, /dev/fd/3, /proc/self/fd/1.

#include <optional>
#include <string>

namespace zeroproof::verification {

/// The descriptor that a path means, through links of any number; nothing for any other path.
std::optional<int> own_descriptor(const std::string& path);

}  // namespace zeroproof::verification
