#pragma once

// The Philox streams that workloads draw from (R15); no two of them meet.

#include <cstdint>

namespace zeroproof::workload {

inline constexpr std::uint32_t window_stream = 1;        ///< where the text of a micro-batch begins
inline constexpr std::uint32_t first_init_stream = 256;  ///< + k: the first values of tensor k

}  // namespace zeroproof::workload
