#pragma once
// Kernels over pieces of any length: assigns parts of pieces to blocks, computes the place of each
// element, and selects the elements that are processed four at a time. An operation has
//   packs_at_once      preferred number of packs of four to process at once: 1, 2 or 4
//   one(place)         the element at a place
//   packs<n>(place)    n packs of four elements, at the place and every pack_stride elements
//                      after it; every address is a multiple of four elements. The same
//                      arithmetic (R17)

#include "cuda/device/kernels/base/host_device.cuh"
#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "cuda/device/step/fold_nodes.hpp"

namespace zeroproof::cuda::device {

inline constexpr int walk_pack_numel = 4;
inline constexpr int pack_stride =
    walk_pack_numel * block_threads;                ///< elements per block and iteration
inline constexpr int part_numel = 4 * pack_stride;  ///< elements of a piece per block

/// An element in both numberings that a buffer may have.
struct Place {
  std::int64_t local;
  std::int64_t to_global;  ///< add this for the other number; constant within a piece

  ZP_HOST_DEVICE Place after(std::int64_t numel) const { return {local + numel, to_global}; }
};

/// PlacedValues as a kernel's argument. A pointer instead of an integer address: the compiler then
/// infers that it is in global memory. A mask instead of a flag: the compiler would emit every loop
/// once for every combination of flags.
struct PlacedAddress {
  void* data = nullptr;
  std::int64_t base = 0;       ///< number of the first element; 0 if packed
  std::int32_t flat_bits = 0;  ///< all ones if not packed
  DType dtype = DType::fp32;

  /// In bytes: with element offsets, the compiler separates the four addresses of a pack and stores
  /// them one by one.
  template <class T>
  ZP_HOST_DEVICE T* at(const Place& place) const {
    const std::int64_t index = place.local + (place.to_global & flat_bits) - base;
    return reinterpret_cast<T*>(static_cast<unsigned char*>(data) +
                                index * static_cast<std::int64_t>(sizeof(T)));
  }
};

/// The elements of a piece before the first whole pack. Buffers with the same numbering have the
/// same element numbers, so the alignment is computed once for all of them.
struct PackHeads {
  static constexpr int no_values = 4, never = 5;
  int packed = no_values;  ///< elements from a pack's start to element 0, or one of the two above
  int flat = no_values;

  void take(const PlacedAddress& values, std::int64_t element_bytes) {
    const auto place =
        static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(values.data)) / element_bytes;
    const int phase = static_cast<int>((place - values.base) & 3);
    int& common = values.flat_bits == 0 ? packed : flat;
    common = common == no_values || common == phase ? phase : never;
  }

  /// 0 to 3, or -1 if no element starts a pack in every buffer.
  ZP_HOST_DEVICE int before(const Place& start) const {
    if (packed == never || flat == never) return -1;
    const int local = static_cast<int>(-(packed + start.local) & 3);
    const int global = static_cast<int>(-(flat + start.local + start.to_global) & 3);
    if (packed == no_values) return global;
    return flat == no_values || local == global ? local : -1;
  }
};

/// Values of `element_bytes` each, for a kernel; records their alignment in heads.
inline PlacedAddress placed_address(const PlacedValues& values, std::int64_t element_bytes,
                                    PackHeads& heads) {
  const PlacedAddress address{const_cast<void*>(values.data), values.packed ? 0 : values.base,
                              values.packed ? 0 : -1, values.dtype};
  heads.take(address, element_bytes);
  return address;
}

/// Processes part `part` of a piece with the threads of one block. Parts end at whole packs, unless
/// the piece ends before.
template <class Operation>
ZP_DEVICE void run_part(const Piece& piece, std::int64_t part, const PackHeads& heads,
                        const Operation& operation) {
  const int thread = static_cast<int>(threadIdx.x);
  const Place start{piece.local_begin, piece.global_begin - piece.local_begin};
  const int before = heads.before(start);
  const int head = before > 0 ? before : 0;
  const std::int64_t begin = part == 0 ? 0 : head + part * part_numel;
  const std::int64_t end =
      head + (part + 1) * part_numel < piece.numel ? head + (part + 1) * part_numel : piece.numel;
  const Place here = start.after(begin);
  const int numel = static_cast<int>(end - begin);  // negative if earlier parts had all elements
  if (before < 0) {
    for (int i = thread; i < numel; i += block_threads) operation.one(here.after(i));
    return;
  }
  const int wanted = part == 0 ? head : 0;
  const int first = wanted < numel ? wanted : numel;  // first element of the packs
  const int num_packs = (numel - first) / walk_pack_numel;
  constexpr int n = Operation::packs_at_once;
  const auto pack = [&](int p) { return here.after(first + walk_pack_numel * p); };
  int p = thread;
  for (; p + (n - 1) * block_threads < num_packs; p += n * block_threads)
    operation.template packs<n>(pack(p));
  if constexpr (n > 2) {
    if (p + block_threads < num_packs) {
      operation.template packs<2>(pack(p));
      p += 2 * block_threads;
    }
  }
  if constexpr (n > 1) {
    if (p < num_packs) operation.template packs<1>(pack(p));
  }
  // Up to three elements before the packs and up to three after them.
  const int i = thread < first ? thread : thread + walk_pack_numel * num_packs;
  if (i < numel && thread < 2 * walk_pack_numel) operation.one(here.after(i));
}

/// The first end that is larger than `index`.
ZP_DEVICE inline int piece_of(const std::int64_t* ends, int num_ends, std::int64_t index) {
  int low = 0, high = num_ends - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (ends[middle] > index) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// Numbers the parts of all pieces consecutively, `numel` elements each, and calls take(piece,
/// part) for the parts of each worker: worker w of `workers` in block b processes part b * workers
/// + w of the launch, and every gridDim.x * workers-th from there on, so that both many small
/// pieces and a single large one keep all workers busy. The host does not have the lengths, so
/// every block counts the parts of 256 pieces at a time and calls between(number of their first)
/// after them. All threads of all blocks call this, once per kernel; the threads of a worker do not
/// diverge.
template <int numel, int workers, class Take, class Between>
ZP_DEVICE void share_parts(const DevicePieces& pieces, int worker, const Take& take,
                           const Between& between) {
  ZP_SHARED_ARRAY(std::int64_t, counts,
                  2 * block_threads);  // two arrays, to add from one into the other
  const int thread = static_cast<int>(threadIdx.x);
  // Part of this worker, counted from the first of these pieces.
  std::int64_t next = static_cast<std::int64_t>(blockIdx.x) * workers + worker;
  for (std::int64_t first = 0; first < pieces.count; first += block_threads) {
    const std::int64_t left = pieces.count - first;
    const int num_pieces = left < block_threads ? static_cast<int>(left) : block_threads;
    std::int64_t* ends = counts;
    std::int64_t* other = counts + block_threads;
    ends[thread] =
        thread < num_pieces ? (pieces.pieces[first + thread].numel + numel - 1) / numel : 0;
    __syncthreads();
    for (int distance = 1; distance < num_pieces; distance *= 2) {
      other[thread] = thread < distance ? ends[thread] : ends[thread] + ends[thread - distance];
      std::int64_t* const added = other;
      other = ends;
      ends = added;
      __syncthreads();
    }
    const std::int64_t num_parts = ends[num_pieces - 1];
    for (; next < num_parts; next += static_cast<std::int64_t>(gridDim.x) * workers) {
      const int p = piece_of(ends, num_pieces, next);
      take(pieces.pieces[first + p], next - (p > 0 ? ends[p - 1] : 0));
    }
    next -= num_parts;
    __syncthreads();  // before the next counts replace these
    between(first);
  }
}

/// Runs an operation over all pieces, a block for every part.
template <class Operation>
ZP_DEVICE void run_pieces(const DevicePieces& pieces, const PackHeads& heads,
                          const Operation& operation) {
  share_parts<part_numel, 1>(
      pieces, 0,
      [&](const Piece& piece, std::int64_t part) { run_part(piece, part, heads, operation); },
      [](std::int64_t) {});
}

/// Number of blocks that are resident on the device at the same time, whatever else runs there: a
/// later block would start its parts when the others have finished theirs.
inline int walk_grid(int blocks_per_multiprocessor) {
  return blocks_per_multiprocessor * num_multiprocessors();
}

}  // namespace zeroproof::cuda::device
