#pragma once

#include <cstdint>

namespace zeroproof::verification {

/// Bytes of memory that this process may still take without others being swapped out, as far as the system tells: of
/// the machine, or of the control group if that leaves less. 0 if it does not tell.
std::uint64_t spare_memory();

}  // namespace zeroproof::verification
