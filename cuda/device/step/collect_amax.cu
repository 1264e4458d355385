// The largest magnitudes of blocks (R22), from masters that are still in the second-level cache if
// they fit.

#include "cuda/device/step/scale_walk.cuh"

namespace zeroproof::cuda::device {

namespace {

constexpr int warp_threads = 32;
constexpr unsigned whole_warp = 0xFFFFFFFFU;

template <class Value>
ZP_DEVICE std::uint32_t magnitude_of(float element) {
  const std::uint32_t bits = bits_of(Value::of(element)) & 0x7FFFFFFFU;
  return bits > 0x7F800000U ? 0x7FFFFFFFU : bits;
}

ZP_DEVICE std::uint32_t larger(std::uint32_t a, std::uint32_t b) { return a < b ? b : a; }

/// An integer maximum is independent of order (R14).
ZP_DEVICE void raise(std::uint64_t* collected, std::int64_t block, std::uint32_t magnitude) {
  using Word = unsigned long long;  // the type of atomicMax
  if (magnitude != 0U) atomicMax(reinterpret_cast<Word*>(collected + block), Word{magnitude});
}

/// Maximum over a warp of one value per thread.
ZP_DEVICE std::uint32_t largest_of_warp(std::uint32_t magnitude) {
  for (unsigned w = warp_threads / 2; w > 0; w /= 2) {
    magnitude = larger(magnitude, __shfl_down_sync(whole_warp, magnitude, w));
  }
  return magnitude;  // valid in lane 0
}

/// The same for every run of lanes with the same block; block: -1 for none. A value from another
/// run of the same block may be merged too.
ZP_DEVICE void raise_runs(std::uint64_t* collected, std::int64_t block, std::int64_t block_before,
                          std::uint32_t magnitude) {
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  for (unsigned w = 1; w < warp_threads; w *= 2) {
    const std::int64_t other_block = __shfl_down_sync(whole_warp, block, w);
    const std::uint32_t other = __shfl_down_sync(whole_warp, magnitude, w);
    if (other_block == block) magnitude = larger(magnitude, other);
  }
  const bool begins = lane == 0 || block_before != block;
  if (block >= 0 && begins) raise(collected, block, magnitude);
}

template <class Value>
struct Collect {
  StepMemory memory;
  ScaleMemory scales;
  PackPhase phase;

  ZP_DEVICE std::uint32_t largest_of_pack(const float* from) const {
    const Pack<float> pack = load_pack(from);
    std::uint32_t largest = 0;
    ZP_UNROLL
    for (int k = 0; k < step_pack_numel; ++k)
      largest = larger(largest, magnitude_of<Value>(pack.v[k]));
    return largest;
  }

  /// A tensor with one block: every thread keeps its own maximum until the end.
  ZP_DEVICE void whole_tensor(const ScalePiece& piece, int head, int packed) const {
    const float* const master = memory.master + piece.local_begin;
    const int thread = static_cast<int>(threadIdx.x), stride = static_cast<int>(blockDim.x);
    const int numel = static_cast<int>(piece.numel);
    std::uint32_t largest = 0;
    for (int i = step_pack_numel * thread; i < packed; i += step_pack_numel * stride)
      largest = larger(largest, largest_of_pack(master + head + i));
    for (int i = thread; i < numel - packed; i += stride)
      largest = larger(largest, magnitude_of<Value>(master[i < head ? i : i + packed]));
    largest = largest_of_warp(largest);
    if (thread % warp_threads == 0) raise(scales.collected, piece.first_block, largest);
  }

  /// All threads of a warp run the same number of iterations, because they exchange their maxima.
  ZP_DEVICE void blocks_of_tensor(const ScalePiece& piece, int head, int packed) const {
    const float* const master = memory.master + piece.local_begin;
    const PieceBlocks blocks(piece);
    const int thread = static_cast<int>(threadIdx.x), stride = static_cast<int>(blockDim.x);
    const int numel = static_cast<int>(piece.numel);
    for (int from = 0; from < packed; from += step_pack_numel * stride) {
      const int i = from + step_pack_numel * thread;
      std::int64_t block = -1, before = -1;
      std::uint32_t largest = 0;
      if (i < packed) {
        block = blocks.of_pack(head + i);
        before = i == 0 ? -1 : blocks.of_pack(head + i - step_pack_numel);
        if (block >= 0) {
          largest = largest_of_pack(master + head + i);
        } else {
          for (int k = 0; k < step_pack_numel; ++k)
            raise(scales.collected, blocks.of(head + i + k),
                  magnitude_of<Value>(master[head + i + k]));
        }
      }
      raise_runs(scales.collected, block, before, largest);
    }
    for (int from = 0; from < numel - packed; from += stride) {
      const int n = from + thread;  // before the packs, and after them
      const auto single = [head, packed](int k) { return k < head ? k : k + packed; };
      std::int64_t block = -1, before = -1;
      std::uint32_t largest = 0;
      if (n < numel - packed) {
        block = blocks.of(single(n));
        before = n == 0 ? -1 : blocks.of(single(n - 1));
        largest = magnitude_of<Value>(master[single(n)]);
      }
      raise_runs(scales.collected, block, before, largest);
    }
  }

  ZP_DEVICE void run() const {
    for_scale_pieces(memory, scales, [this](const ScalePiece& piece) {
      const int numel = static_cast<int>(piece.numel);
      const int head = phase.head(piece.local_begin, numel);
      const int packed = (numel - head) / step_pack_numel * step_pack_numel;
      const bool one_block =
          piece.row_shift == ScalePiece::whole && piece.column_shift == ScalePiece::whole;
      one_block ? whole_tensor(piece, head, packed) : blocks_of_tensor(piece, head, packed);
    });
  }
};

template <class Value>
ZP_KERNEL collect_kernel(Collect<Value> pass) {
  pass.run();
}

}  // namespace

void enqueue_collect_amax(const StepMemory& memory, const ScaleMemory& scales,
                          const ScaleRules& rules) {
  if (scales.num_pieces == 0) return;
  const PackPhase phase = PackPhase().with(memory.master);
  visit_value(rules.scaling.value, [&](auto value) {
    using Value = decltype(value);
    launch(collect_kernel<Value>, grid_blocks(scales.num_pieces * block_threads), block_threads,
           Collect<Value>{memory, scales, phase});
  });
}

}  // namespace zeroproof::cuda::device
