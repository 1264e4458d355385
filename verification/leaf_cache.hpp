#pragma once
// Leaf gradients, computed once per set of bits that go in. A leaf is a pure function of (step, micro-batch,
// parameters, loss scale), so cases whose parameters agree in every bit share it; one whose parameters differ
// gets its own.

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "common/base/digest.hpp"
#include "common/base/guarded_buffer.hpp"
#include "verification/experiment.hpp"

namespace zeroproof::verification {

class LeafCache {
 public:
  explicit LeafCache(const Experiment& experiment) : experiment_(experiment) {}

  struct Leaf {
    GuardedBuffer values;  ///< [padded_numel] in the leaf dtype, NaN in padding
    double loss = 0;
    Digest digest;  ///< of all bytes, as computed
  };

  /// Digest under which parameters are known to the cache.
  static Digest parameters_digest(const TensorView& params) {
    return raw_digest(params.data, params.num_bytes());
  }

  /// The leaf for these inputs, computed now if nobody has yet. Several threads may call at once. The leaf
  /// stays valid until forget().
  const Leaf& leaf(std::int64_t step, std::int64_t micro_batch, const TensorView& params,
                   const Digest& params_digest, int log2_loss_scale);

  /// True if no leaf has changed since it was computed: inputs are not to be edited.
  bool unchanged();

  void forget();

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, Digest, int>;
  struct Entry {
    std::once_flag once;
    Leaf leaf;
  };

  const Experiment& experiment_;
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<Entry>> entries_;
};

/// The leaves of one step for one side of a case.
class CachedLeaves final : public LeafSource {
 public:
  CachedLeaves(LeafCache& cache, std::int64_t step, const TensorView& params, int log2_loss_scale)
      : cache_(cache),
        step_(step),
        params_(params),
        digest_(LeafCache::parameters_digest(params)),
        log2_loss_scale_(log2_loss_scale) {}

  TensorView leaf(std::int64_t micro_batch) override {
    return cache_.leaf(step_, micro_batch, params_, digest_, log2_loss_scale_).values.view();
  }

 private:
  LeafCache& cache_;
  std::int64_t step_;
  TensorView params_;
  Digest digest_;
  int log2_loss_scale_;
};

}  // namespace zeroproof::verification
