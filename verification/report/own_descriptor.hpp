#pragma once
// Paths of open descriptors of this process: /dev/stdout, /dev/fd/3, /proc/self/fd/1.

#include <optional>
#include <string>

namespace zeroproof::verification {

/// The descriptor of a path, through any number of links; empty for any other path.
std::optional<int> own_descriptor(const std::string& path);

}  // namespace zeroproof::verification
