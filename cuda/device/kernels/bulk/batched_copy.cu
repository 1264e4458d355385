#include "cuda/device/kernels/bulk/batched_copy.hpp"

#include "cuda/device/kernels/base/pack.cuh"
#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::cuda::device {

namespace {

using Byte = unsigned char;

ZP_DEVICE std::uintptr_t address(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

/// Source and target are equally far from a 16-byte boundary.
struct ByPack {
  static constexpr int num_bytes = 16;
  ZP_DEVICE static void copy(Byte* to, const Byte* from) { store_pack(to, load_pack(from)); }
};

/// The same for a word.
struct ByWord {
  static constexpr int num_bytes = 4;
  ZP_DEVICE static void copy(Byte* to, const Byte* from) {
    *reinterpret_cast<std::uint32_t*>(to) = *reinterpret_cast<const std::uint32_t*>(from);
  }
};

/// A word of the target from bytes: no access covers memory outside of the source.
struct WordByByte {
  static constexpr int num_bytes = 4;
  ZP_DEVICE static void copy(Byte* to, const Byte* from) {
    std::uint32_t word = 0;
    ZP_UNROLL
    for (int k = 0; k < num_bytes; ++k) word |= static_cast<std::uint32_t>(from[k]) << (8 * k);
    *reinterpret_cast<std::uint32_t*>(to) = word;
  }
};

/// One block of threads: bytes up to the first boundary of the target, then whole units, then the
/// last bytes.
template <class Unit>
ZP_DEVICE void copy_by(const Move& move) {
  auto* const to = static_cast<Byte*>(move.to);
  const auto* const from = static_cast<const Byte*>(move.from);
  constexpr int size = Unit::num_bytes;
  constexpr int stride = block_threads * size;
  const auto thread = static_cast<int>(threadIdx.x);
  const auto past = static_cast<int>(address(to) % size);
  const std::int64_t distance = past == 0 ? 0 : size - past;
  const std::int64_t head = distance < move.num_bytes ? distance : move.num_bytes;
  const std::int64_t tail = head + (move.num_bytes - head) / size * size;
  if (thread < head) to[thread] = from[thread];
  ZP_UNROLL
  for (std::int64_t i = head + thread * size; i < tail; i += stride) Unit::copy(to + i, from + i);
  if (thread < move.num_bytes - tail) to[tail + thread] = from[tail + thread];
}

/// A block of threads per move.
ZP_KERNEL batched_copy_kernel(const Move* moves, std::int64_t count) {
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const Move move = moves[i];
    const std::uintptr_t apart = address(move.to) ^ address(move.from);
    if (apart % ByPack::num_bytes == 0) {
      copy_by<ByPack>(move);
    } else if (apart % ByWord::num_bytes == 0) {
      copy_by<ByWord>(move);
    } else {
      copy_by<WordByByte>(move);
    }
  }
}

}  // namespace

void enqueue_batched_copy(const Move* moves, std::int64_t count) {
  launch(batched_copy_kernel, grid_blocks(count * block_threads), block_threads, moves, count);
}

}  // namespace zeroproof::cuda::device
