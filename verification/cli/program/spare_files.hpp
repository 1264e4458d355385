#pragma once

#include <cstdint>

namespace zeroproof::verification {

/// Files that this process may have open besides those it has: half of what is left of its limit, and 1 at least.
std::int64_t spare_files();

/// Asks the system for as many as it gives without being asked for rights. A step keeps several files open for every
/// rank whose state is in files, and 1,024 in all are a usual limit.
void raise_file_limit();

}  // namespace zeroproof::verification
