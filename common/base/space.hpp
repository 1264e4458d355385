#pragma once

#include <cstdint>

namespace zeroproof {

/// Memory and kernels: on the processor, or on a device.
enum class Space : std::uint8_t { host, device };

}  // namespace zeroproof
