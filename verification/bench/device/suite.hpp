#pragma once
// What is measured. Every function measures one group of rows, and adds what it compared to the checks. A group that
// the device has no memory for says so instead.

#include <cstdint>
#include <vector>

#include "verification/bench/device/device_rows.hpp"
#include "verification/bench/device/kernel_data.hpp"

namespace zeroproof::verification::bench {

/// Loops that move the bytes of a pass, each in several forms of which the fastest is the limit. Shapes: "R", "RW",
/// "4R3W+W2"; with leaves "R2W4", "2xR2W4" and so on, of as many as the data has.
void add_limit_rows(DeviceRows& rows, const KernelData& data);

/// Kernels of a step by themselves, and the two passes as a graph.
Group measure_kernels(std::int64_t numel, int rounds, std::vector<Check>& checks);

/// Steps through make_enqueued_optimizer, one rank: of one tensor, of 300, and in phases.
Group measure_steps(std::int64_t numel, int rounds, std::vector<Check>& checks);

/// What a step costs the host, and the device, where memory costs nothing.
Group measure_small_step(std::int64_t numel, int rounds);

/// Phase reduce of ranks that share the devices of this machine, by copies, over layers that take their time.
Group measure_ranks(std::int64_t numel, int ranks, int rounds);

/// Steps on leaves of the device, at a size where the host takes them too: alone in a graph, and of ranks over layers.
std::vector<Check> check_steps();

}  // namespace zeroproof::verification::bench
