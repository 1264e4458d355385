#pragma once

// The disjoint Philox streams of workloads (R15).

#include <cstdint>

namespace zeroproof::workload {

inline constexpr std::uint32_t window_stream = 1;        ///< the start of a micro-batch's text
inline constexpr std::uint32_t first_init_stream = 256;  ///< + k: the first values of tensor k

}  // namespace zeroproof::workload
