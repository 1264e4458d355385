#pragma once
// Accumulation of the norm by a block (R12), one struct per form. Each has
//   start()               called by every thread before the first piece
//   takers()              number of pieces that a block processes at a time, and
//   taker()               which of them this thread works on
//   piece(...)            adds a piece; value(g) maps a stored element to the measured value
//   see(...)              reads a piece that does not count: value(g) for every element
//   add(g)                adds one element; chunk1024 has with_square() and deposit() instead, for
//                         a lane and a warp
//   carry()               called by every thread between pieces, often enough
//   finish(found, words)  called by every thread after the last piece
//   words_of(...)         target of its integers: the one norm, or a clip group
// Only integers leave a block, so neither the grid nor any order matters (R10).

#include <cmath>

#include "common/contracts/step_scalars.hpp"
#include "cuda/device/kernels/gradients/norm_sums.cuh"
#include "cuda/device/step/step_grid.cuh"

namespace zeroproof::cuda::device {

/// A pass over a piece that passes every element to f.
template <class F>
struct EachElement {
  const float* grad;  // of the piece
  F f;

  ZP_DEVICE void one(int i) { f(grad[i]); }
  ZP_DEVICE void pack(int i) {
    const Pack<float> g = load_pack(grad + i);
    ZP_UNROLL
    for (int k = 0; k < step_pack_numel; ++k) f(g.v[k]);
  }
};

template <class F>
ZP_DEVICE void for_each_element(const PackPhase& phase, const StepPiece& piece, const float* grad,
                                F f) {
  EachElement<F> each{grad, f};
  walk_piece(phase, piece, each);
}

/// A piece processed by the whole block.
struct ByBlocks {
  ZP_DEVICE static int takers() { return 1; }
  ZP_DEVICE static int taker() { return 0; }

  template <class Value>
  ZP_DEVICE static void see(const PackPhase& phase, const StepPiece& piece, const float* grad,
                            Value value) {
    for_each_element(phase, piece, grad, value);
  }
};

/// Block sums of a launch in shared memory, added to found->sums at the end.
struct CollectedSums {
  Sum* block_sums;

  ZP_DEVICE void start() { block_sums = start_block_sums(); }

  /// Afterwards limbs are below 2^32 again and can take as many further deposits.
  ZP_DEVICE void carry() const {
    __syncthreads();
    if (threadIdx.x == 0) carry_limbs(block_sums);
    __syncthreads();
  }

  ZP_DEVICE static std::uint64_t* words_of(StepFound* found) { return found->sums; }
  ZP_DEVICE static std::uint64_t* words_of(const ClipGroupsFound& groups, std::int64_t group) {
    return groups.sums + group * num_norm_words;
  }

  /// The last block to finish reads the sums of all blocks and normalises them. It reads them with
  /// atomics too: a plain load might return stale data from a cache of this multiprocessor.
  ZP_DEVICE void finish(StepFound* found, std::uint64_t* words) const {
    ZP_SHARED_ARRAY(unsigned, is_last, 1);
    Sum* sums = reinterpret_cast<Sum*>(words);
    __syncthreads();
    if (threadIdx.x == 0) carry_limbs(block_sums);
    finish_block_sums(block_sums, sums);
    __threadfence();  // before the ticket is drawn
    __syncthreads();
    if (threadIdx.x == 0)
      is_last[0] = atomicAdd(&found->finished_blocks, 1U) == gridDim.x - 1 ? 1U : 0U;
    __syncthreads();
    if (is_last[0] == 0U) return;
    __threadfence();
    if (threadIdx.x < norm_num_sums)
      block_sums[threadIdx.x] = atomicAdd(&sums[threadIdx.x], Sum{0});
    __syncthreads();
    if (threadIdx.x == 0) {
      carry_limbs(block_sums);
      found->finished_blocks = 0;
    }
    __syncthreads();
    if (threadIdx.x < norm_num_sums) sums[threadIdx.x] = block_sums[threadIdx.x];
  }
};

/// chunk1024: one warp per chunk, lane l of the warp being lane l of R12: each step of the warp
/// loads 128 contiguous bytes, at any alignment.
struct CollectChunks : CollectedSums {
  static constexpr int loads_at_once = 16;

  /// The sum of a lane plus the square of one element.
  ZP_DEVICE static double with_square(double sum, float g) {
    const double x = static_cast<double>(g);
    const double square = x * x;
    return sum + square;
  }

  /// Deposits a chunk from the sums of its lanes. All 32 lanes of the warp call this.
  ZP_DEVICE void deposit(double lane_sum) const {
    const double chunk_value = warp_tree(lane_sum);
    if (threadIdx.x % norm_num_lanes == 0) add_to_block_sums(norm_deposit(chunk_value), block_sums);
  }

  /// from: the lane's first element of a chunk. count: number of elements, 32 apart, from there to
  /// the end of the piece; fewer than 32 are all those of a short chunk. Missing elements count as
  /// +0, which changes no sum.
  template <class Value>
  ZP_DEVICE static double lane_sum(const float* from, int count, Value value) {
    double sum = 0.0;
    const auto add = [&](float g) { sum = with_square(sum, value(g)); };
    if (count < norm_num_lanes) {
      for (int s = 0; s < count; ++s) add(from[norm_num_lanes * s]);
      return sum;
    }
    for (int s = 0; s < norm_num_lanes; s += loads_at_once) {
      float g[loads_at_once];
      ZP_UNROLL
      for (int k = 0; k < loads_at_once; ++k) g[k] = from[norm_num_lanes * (s + k)];
      ZP_UNROLL
      for (int k = 0; k < loads_at_once; ++k) add(g[k]);
    }
    return sum;
  }

  /// One piece per warp: most pieces have few chunks, and a warp processes whole chunks.
  ZP_DEVICE static int takers() { return static_cast<int>(blockDim.x) / norm_num_lanes; }
  ZP_DEVICE static int taker() { return static_cast<int>(threadIdx.x) / norm_num_lanes; }

  template <class Value>
  ZP_DEVICE void piece(const PackPhase& /*phase*/, const StepPiece& piece, const float* grad,
                       Value value) const {
    constexpr int chunk_size = static_cast<int>(norm_chunk_numel);
    const int lane = static_cast<int>(threadIdx.x) % norm_num_lanes;
    const int numel = static_cast<int>(piece.numel);
    for (int first = lane; first - lane < numel; first += chunk_size) {
      const int count = (numel - first + norm_num_lanes - 1) / norm_num_lanes;
      deposit(lane_sum(grad + first, count, value));
    }
  }

  template <class Value>
  ZP_DEVICE static void see(const PackPhase& /*phase*/, const StepPiece& piece, const float* grad,
                            Value value) {
    const int numel = static_cast<int>(piece.numel);
    for (int i = static_cast<int>(threadIdx.x) % norm_num_lanes; i < numel; i += norm_num_lanes)
      value(grad[i]);
  }
};

/// exact and one: every element is deposited alone.
template <NormTerm term>
struct CollectTerms : CollectedSums, ByBlocks {
  TermDeposits<term> terms{};

  ZP_DEVICE void add(float g) { terms.add(g, block_sums); }

  template <class Value>
  ZP_DEVICE void piece(const PackPhase& phase, const StepPiece& piece, const float* grad,
                       Value value) {
    for_each_element(phase, piece, grad, [this, value](float g) { add(value(g)); });
  }

  ZP_DEVICE void carry() {
    terms.flush(block_sums);
    CollectedSums::carry();
  }
  ZP_DEVICE void finish(StepFound* found, std::uint64_t* words) {
    terms.flush(block_sums);
    CollectedSums::finish(found, words);
  }
};

/// inf: the largest magnitude, as an integer.
struct CollectLargest : ByBlocks {
  unsigned largest = 0;

  ZP_DEVICE void start() {}
  ZP_DEVICE void carry() {}

  ZP_DEVICE void add(float g) {
    unsigned magnitude = bits_of(g) & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) magnitude = 0x7FFFFFFFU;
    largest = magnitude > largest ? magnitude : largest;
  }

  template <class Value>
  ZP_DEVICE void piece(const PackPhase& phase, const StepPiece& piece, const float* grad,
                       Value value) {
    for_each_element(phase, piece, grad, [this, value](float g) { add(value(g)); });
  }

  ZP_DEVICE static std::uint64_t* words_of(StepFound* found) { return &found->amax; }
  ZP_DEVICE static std::uint64_t* words_of(const ClipGroupsFound& groups, std::int64_t group) {
    return groups.amax + group;
  }

  ZP_DEVICE void finish(StepFound* /*found*/, std::uint64_t* word) const {
    ZP_SHARED_ARRAY(unsigned, block_largest, 1);
    if (threadIdx.x == 0) block_largest[0] = 0;
    __syncthreads();
    if (largest != 0U) atomicMax(block_largest, largest);
    __syncthreads();
    if (threadIdx.x == 0 && block_largest[0] != 0U) {
      atomicMax(reinterpret_cast<Sum*>(word), Sum{block_largest[0]});
    }
  }
};

/// Calls f(Collect{}) with the struct for the norm form of a run.
template <class F>
void visit_form(NormForm form, F&& f) {
  switch (form) {
    case NormForm::exact:
      return f(CollectTerms<NormTerm::square>{});
    case NormForm::one:
      return f(CollectTerms<NormTerm::magnitude>{});
    case NormForm::inf:
      return f(CollectLargest{});
    case NormForm::chunk1024:
      break;
  }
  f(CollectChunks{});
}

}  // namespace zeroproof::cuda::device
