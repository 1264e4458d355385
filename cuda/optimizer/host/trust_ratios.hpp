#pragma once
// The trust ratio of every tensor (R6): its norms over pieces, threads and ranks.

#include <cstdint>
#include <utility>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/contracts/lamb.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/optimizer/state/tensor_steps.hpp"

namespace zeroproof::cuda {

class TrustRatios {
 public:
  /// Norms of the tensors of one worker. Each worker adds to its own, and add() takes each of them
  /// once.
  class Part {
   public:
    TrustNorms& of(std::int64_t tensor) {
      if (norms_.empty() || norms_.back().first != tensor) norms_.push_back({tensor, {}});
      return norms_.back().second;
    }

   private:
    friend class TrustRatios;
    std::vector<std::pair<std::int64_t, TrustNorms>> norms_;  // a worker visits tensors in order
  };

  /// Empty for a rule without trust ratios.
  explicit TrustRatios(const OptimizerSetup& setup);
  explicit operator bool() const { return is_used_; }

  /// No norms, and every ratio is 1.
  void reset();

  void add(const Part& part);
  /// norms: [num_tensors]
  void add(Span<const TrustNorms> norms);
  /// The sums so far, which start again.
  std::vector<TrustNorms> take_norms();

  /// Combines the ranks that have counted other elements: those of comm and of tp, each unless it
  /// is null; one reduction for each, of all tensors. Makes the ratios, and the norms start again.
  void finish(const KernelTable& ops, Communicator* comm, Communicator* tp,
              const TensorSteps& steps);

  /// [num_tensors], or empty.
  const std::vector<float>& values() const { return ratios_; }
  void set_values(std::vector<float> ratios) { ratios_ = std::move(ratios); }
  float of(const Piece& piece) const { return is_used_ ? ratios_[piece.tensor] : 1.0F; }
  /// Whether both have one ratio whatever its value is.
  bool same(const Piece& a, const Piece& b) const { return !is_used_ || a.tensor == b.tensor; }

  ExposedBuffer exposed() const;

 private:
  const bool is_used_;
  std::vector<TrustNorms> norms_;  // [num_tensors], as the ratios
  std::vector<float> ratios_;
};

}  // namespace zeroproof::cuda
