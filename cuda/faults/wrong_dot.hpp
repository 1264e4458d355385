#pragma once
// A dot product as many programs take it. Only compiled into zp_cuda_faults.

#include <cmath>
#include <vector>

#include "common/base/span.hpp"
#include "common/comm/communicator.hpp"

namespace zeroproof::cuda {

/// The sum of a[i] * b[i] over all ranks, every addition in fp32. a, b: [shard_numel]; padding (NaN) adds nothing.
inline double dot_in_fp32(Communicator& comm, Span<const float> a, Span<const float> b) {
  float mine = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float product = a[i] * b[i];
    if (!std::isnan(product)) mine += product;
  }
  std::vector<float> parts(static_cast<std::size_t>(comm.world_size()));
  std::vector<Span<std::byte>> receive;
  for (float& part : parts) receive.push_back(std::as_writable_bytes(Span<float>(&part, 1)));
  comm.all_gather(std::as_bytes(Span<const float>(&mine, 1)), receive);
  float sum = 0;
  for (const float part : parts) sum += part;
  return sum;
}

}  // namespace zeroproof::cuda
