#pragma once
// A run to be stepped on a device: its tensors, settings and schedule.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "cuda/device/step/step_passes.hpp"
#include "tests/support/values.hpp"

namespace zeroproof::device_test {

namespace device = cuda::device;

/// The part of a tensor that a rank has.
struct PartSpec {
  std::int64_t numel;
  std::int64_t group = 0;
  bool counted = true;
  std::int64_t gap = 0;           ///< omitted elements of the buffers in front of it
  std::int64_t tensor_begin = 0;  ///< a multiple of 1024
  std::int64_t place_begin = 0, row_numel = 1, row_stride = 1;
};

struct StepCase {
  std::vector<PartSpec> parts = {
      {3000, 0, true, 5}, {1, 1}, {1023, 1, false}, {4097, 0, true, 2}, {7, 1}};
  device::StepRules rules;
  std::vector<device::ScheduleRow> schedule;  // [rows][num_groups]
  std::int64_t num_groups = 2;
  std::int64_t first_row_t = 1;
  bool own_counts = false;
  std::int64_t divisor = 3;
  std::int64_t piece_numel = 2048;
  std::array<int, 7> shifts =
      {};  ///< offset of the buffers in elements from a 256-byte boundary; param last

  std::int64_t shard_numel() const {
    std::int64_t numel = 9;
    for (const PartSpec& part : parts) numel += part.gap + part.numel;
    return numel;
  }
};

/// Rows of t = first, first + 1, ..., different for every t and group; every third decay of group 1 is 0.
inline std::vector<device::ScheduleRow> rows_for(std::int64_t first, std::int64_t count,
                                                 std::int64_t num_groups) {
  std::vector<device::ScheduleRow> rows;
  for (std::int64_t t = first; t < first + count; ++t) {
    for (std::int64_t g = 0; g < num_groups; ++g) {
      const double decay = g == 1 && t % 3 == 0 ? 0.0 : 0.02 * static_cast<double>(g + 1);
      rows.push_back({1e-2 / static_cast<double>(t + g), decay});
    }
  }
  return rows;
}

enum Buffer : std::uint8_t {
  grad,
  master,
  exp_avg,
  exp_avg_sq,
  max_exp_avg_sq,
  momentum_buffer,
  num_buffers
};
using Buffers = std::array<std::vector<float>, num_buffers>;

/// Three tensors, a scale that grows every second step, and four rows.
inline StepCase small_case() {
  StepCase c;
  c.parts = {{1500, 0, true, 3}, {31, 1, true, 1}, {2, 0}};
  c.rules.scaler.kind = LossScalerKind::dynamic;
  c.rules.scaler.log2_initial = 4, c.rules.scaler.growth_interval = 2;
  c.schedule = rows_for(1, 4, c.num_groups);
  return c;
}

/// Gradient sums: magnitudes of training, times 2^log2_scale, with some zeros and subnormals.
inline std::vector<float> sums_for(const StepCase& c, std::uint64_t seed, int log2_scale) {
  std::vector<float> sums = tests::random_values(c.shard_numel(), seed, 8);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] = std::ldexp(sums[i], log2_scale);
    if (i % 41 == 7) sums[i] = i % 2 == 0 ? 0.0F : -0.0F;
    if (i % 53 == 11) sums[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i * 977 + 1));
  }
  return sums;
}

}  // namespace zeroproof::device_test
