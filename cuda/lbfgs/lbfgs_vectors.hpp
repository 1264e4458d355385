#pragma once
// The vectors of L-BFGS on one rank, and the operations of R21 on them: over pieces of tensors, never over padding.

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "common/comm/communicator.hpp"
#include "common/contracts/grad_norm.hpp"
#include "cuda/host/base/piece_loop.hpp"
#include "cuda/host/gradients/limb_deposit.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::cuda {

class LbfgsVectors {
 public:
  LbfgsVectors(const std::vector<Piece>& pieces, std::int64_t shard_numel, const Exec& exec,
               Communicator& comm)
      : loop_(pieces), shard_numel_(shard_numel), exec_(exec), comm_(comm) {}

  GuardedBuffer make() const { return {shard_numel_, DType::fp32}; }

  /// to[i] = f(a[i], b[i]) for every element of every tensor; `to` may be a or b.
  template <class Operation>
  void each(const GuardedBuffer& to, const GuardedBuffer& a, const GuardedBuffer& b,
            const Operation& f) const {
    loop_.run(exec_, [&](const Exec&, const Piece& piece) {
      float* const target = to.as<float>().data() + piece.local_begin;
      const float* const left = a.as<float>().data() + piece.local_begin;
      const float* const right = b.as<float>().data() + piece.local_begin;
      for (std::int64_t i = 0; i < piece.numel; ++i) target[i] = f(left[i], right[i]);
    });
  }

  void copy(const GuardedBuffer& from, const GuardedBuffer& to) const {
    each(to, from, from, [](float x, float) { return x; });
  }

  /// Dot product (R19) over all ranks.
  double dot(const GuardedBuffer& a, const GuardedBuffer& b) const {
    DotLimbs limbs = sum_over_pieces<DotLimbs>(
        [&](const Exec& exec, const Piece& piece, DotLimbs& sum) {
          host::dot_accumulate(exec, part(a, piece), part(b, piece), sum);
          host::dot_normalise(sum);
        },
        [](const DotLimbs& from, DotLimbs& into) {
          host::merge(from.positive, into.positive);
          host::merge(from.negative, into.negative);
        });
    host::dot_normalise(limbs);
    auto words = std::bit_cast<std::array<std::uint64_t, sizeof(DotLimbs) / 8>>(limbs);
    comm_.all_reduce(words, IntegerReduce::sum);
    return host::dot_finish(std::bit_cast<DotLimbs>(words));
  }

  /// Norm form one (R12) over all ranks.
  double sum_abs(const GuardedBuffer& a) const {
    NormLimbs limbs = sum_over_pieces<NormLimbs>(
        [&](const Exec& exec, const Piece& piece, NormLimbs& sum) {
          host::grad_abs_accumulate(exec, part(a, piece), sum);
          host::grad_norm_normalise(sum);
        },
        [](const NormLimbs& from, NormLimbs& into) { host::merge(from, into); });
    host::grad_norm_normalise(limbs);
    auto words = std::bit_cast<std::array<std::uint64_t, sizeof(NormLimbs) / 8>>(limbs);
    comm_.all_reduce(words, IntegerReduce::sum);
    return host::grad_abs_finish(std::bit_cast<NormLimbs>(words));
  }

  /// Norm form inf (R12) over all ranks: not finite if an element is not.
  double max_abs(const GuardedBuffer& a) const {
    const std::uint32_t mine = sum_over_pieces<std::uint32_t>(
        [&](const Exec& exec, const Piece& piece, std::uint32_t& amax) {
          host::grad_max_accumulate(exec, part(a, piece), amax);
        },
        [](std::uint32_t from, std::uint32_t& into) { into = std::max(into, from); });
    std::uint64_t word = mine;
    comm_.all_reduce({&word, 1}, IntegerReduce::max);
    return host::grad_max_finish(static_cast<std::uint32_t>(word));
  }

 private:
  static Span<const float> part(const GuardedBuffer& buffer, const Piece& piece) {
    return buffer.as<float>().subspan(piece.local_begin, piece.numel);
  }

  template <class Sum, class Add, class Merge>
  Sum sum_over_pieces(const Add& add, const Merge& merge) const {
    Sum total{};
    std::mutex mutex;
    loop_.run(exec_, [&](const Exec& exec, const Piece& piece) {
      Sum mine{};
      add(exec, piece, mine);
      const std::lock_guard lock(mutex);
      merge(mine, total);
    });
    return total;
  }

  host::PieceLoop loop_;
  std::int64_t shard_numel_;
  Exec exec_;
  Communicator& comm_;
};

}  // namespace zeroproof::cuda
