#include "cuda/device/grad_stats.hpp"

#include <algorithm>
#include <vector>

#include "cuda/device/kernels/base/host_device.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "cuda/host/gradients/grad_segments.hpp"

#ifdef __CUDACC__
#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_segmented_reduce.cuh>
#endif

namespace zeroproof::cuda::device {

namespace {

constexpr std::int64_t part_numel = 1 << 16;

/// Statistics of one part; its counts fit in 32 bits.
struct PartStats {
  std::uint32_t amax;
  std::uint32_t num_nonfinite;
  std::uint32_t num_zeros;
};

struct Look {
  ZP_HOST_DEVICE PartStats operator()(float value) const {
    const std::uint32_t magnitude = bits_of(value) & 0x7FFFFFFFU;
    return {magnitude > 0x7F800000U ? 0x7FFFFFFFU : magnitude, magnitude >= 0x7F800000U ? 1U : 0U,
            magnitude == 0U ? 1U : 0U};
  }
};

struct Combine {
  ZP_HOST_DEVICE PartStats operator()(const PartStats& a, const PartStats& b) const {
    return {a.amax > b.amax ? a.amax : b.amax, a.num_nonfinite + b.num_nonfinite,
            a.num_zeros + b.num_zeros};
  }
};

#ifdef __CUDACC__

using Count = unsigned long long;  // the type that 64-bit atomics take

struct Begin {
  ZP_HOST_DEVICE std::int64_t operator()(const GradSegment& part) const { return part.begin; }
};

struct End {
  ZP_HOST_DEVICE std::int64_t operator()(const GradSegment& part) const {
    return part.begin + part.numel;
  }
};

void reduce(void* scratch, std::size_t& scratch_bytes, const float* grad, const GradSegment* parts,
            std::int64_t num_parts, PartStats* found, cudaStream_t stream) {
  check_cuda(
      cub::DeviceSegmentedReduce::Reduce(
          scratch, scratch_bytes, thrust::make_transform_iterator(grad, Look{}), found, num_parts,
          thrust::make_transform_iterator(parts, Begin{}),
          thrust::make_transform_iterator(parts, End{}), Combine{}, PartStats{0, 0, 0}, stream),
      "reducing segments");
}

/// At least 1 byte: with a null scratch pointer the reduction only returns its size.
std::int64_t reduce_scratch_bytes(std::int64_t num_parts) {
  std::size_t bytes = 0;
  reduce(nullptr, bytes, nullptr, nullptr, num_parts, nullptr, nullptr);
  return std::max<std::int64_t>(static_cast<std::int64_t>(bytes), 1);
}

void enqueue_reduce(const float* grad, const GradSegment* parts, std::int64_t num_parts,
                    PartStats* found, void* scratch) {
  auto bytes = static_cast<std::size_t>(reduce_scratch_bytes(num_parts));
  reduce(scratch, bytes, grad, parts, num_parts, found, current_cuda_stream());
  count_launch();
}

#else

using Count = std::uint64_t;

ZP_KERNEL reduce_kernel(const float* grad, const GradSegment* parts, std::int64_t num_parts,
                        PartStats* found) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t p = thread; p < num_parts; p += stride) {
    PartStats all{0, 0, 0};
    for (std::int64_t i = 0; i < parts[p].numel; ++i)
      all = Combine{}(all, Look{}(grad[parts[p].begin + i]));
    found[p] = all;
  }
}

std::int64_t reduce_scratch_bytes(std::int64_t) { return 1; }

void enqueue_reduce(const float* grad, const GradSegment* parts, std::int64_t num_parts,
                    PartStats* found, void*) {
  launch(reduce_kernel, grid_blocks(num_parts), block_threads, grad, parts, num_parts, found);
}

#endif

/// Merges the statistics of a part into those of its tensor.
ZP_KERNEL add_parts_kernel(const GradSegment* parts, std::int64_t num_parts, const PartStats* found,
                           GradStats* stats) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t p = thread; p < num_parts; p += stride) {
    const PartStats mine = found[p];
    GradStats& tensor = stats[parts[p].tensor];
    if (mine.amax != 0U) atomicMax(&tensor.amax, mine.amax);
    if (mine.num_nonfinite != 0U)
      atomicAdd(reinterpret_cast<Count*>(&tensor.num_nonfinite), Count{mine.num_nonfinite});
    if (mine.num_zeros != 0U)
      atomicAdd(reinterpret_cast<Count*>(&tensor.num_zeros), Count{mine.num_zeros});
  }
}

constexpr std::int64_t aligned(std::int64_t num_bytes) { return (num_bytes + 255) / 256 * 256; }

std::vector<GradSegment> parts_of(Span<const GradSegment> segments) {
  std::vector<GradSegment> parts;
  for (const GradSegment& segment : segments) {
    for (std::int64_t begin = 0; begin < segment.numel; begin += part_numel) {
      parts.push_back(
          {segment.begin + begin, std::min(part_numel, segment.numel - begin), segment.tensor});
    }
  }
  return parts;
}

std::int64_t found_bytes(std::int64_t num_parts) {
  return aligned(num_parts * static_cast<std::int64_t>(sizeof(PartStats)));
}

}  // namespace

DeviceSegments::DeviceSegments(Span<const GradSegment> segments) {
  const std::vector<GradSegment> parts = parts_of(segments);
  const std::int64_t parts_bytes =
      static_cast<std::int64_t>(Span<const GradSegment>(parts).size_bytes());
  num_parts_ = numel(Span<const GradSegment>(parts));
  scratch_begin_ = aligned(parts_bytes);
  memory_ = DeviceArray<std::byte>(scratch_begin_ + found_bytes(num_parts_) +
                                   reduce_scratch_bytes(num_parts_));
  stage_to_device(memory_.data(), parts.data(), parts_bytes);
}

void enqueue_grad_stats(const float* grad, const DeviceSegments& segments, GradStats* stats) {
  const std::int64_t num_parts = segments.num_parts();
  auto* const found = reinterpret_cast<PartStats*>(segments.scratch());
  enqueue_reduce(grad, segments.parts(), num_parts, found,
                 segments.scratch() + found_bytes(num_parts));
  launch(add_parts_kernel, grid_blocks(num_parts), block_threads, segments.parts(), num_parts,
         static_cast<const PartStats*>(found), stats);
}

void grad_stats(const Exec&, Span<const float> grad, Span<const GradSegment> segments,
                Span<GradStats> stats) {
  host::require_segments(segments, numel(grad), numel(stats));
  const bool any = std::any_of(segments.begin(), segments.end(),
                               [](const GradSegment& segment) { return segment.numel > 0; });
  if (!any) return;
  const DeviceSegments table(segments);
  enqueue_grad_stats(grad.data(), table, stats.data());
}

}  // namespace zeroproof::cuda::device
