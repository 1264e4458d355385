#pragma once
// Gradients of micro-batches, computed once per set of input bits. A gradient is a pure function of
// (step, micro-batch, parameters, loss scale), so cases whose parameters agree in every bit share
// it; a case with different parameters gets a separate one.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/digest.hpp"
#include "common/base/guarded_buffer.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/training/gradients/grad_store.hpp"

namespace zeroproof::verification {

/// Where gradients may be stored besides the cache. Both null: nowhere.
struct KeptGrads {
  GradStore* store = nullptr;      ///< receives every computed gradient
  const GradFile* file = nullptr;  ///< written by the parent process
};

class GradCache {
 public:
  explicit GradCache(const Experiment& experiment, const KeptGrads& kept = {});

  struct Grad {
    /// [padded_numel] in the gradient dtype, NaN in padding; empty if stored elsewhere
    GuardedBuffer values;
    double loss = 0;
    Digest digest;    ///< of all bytes, as computed
    TensorView kept;  ///< set if it is stored elsewhere

    TensorView view() const { return values.data() != nullptr ? values.view() : kept; }
  };

  /// Digest of parameters as a key of the cache: of their bits without the padding, whose NaNs may
  /// differ and on which no gradient depends. params: [padded_numel].
  Digest parameters_digest(const TensorView& params) const;

  /// The gradient for these inputs, computed at the first call. Several threads may call at once.
  /// The gradient stays valid until forget().
  const Grad& micro_batch_grad(std::int64_t step, std::int64_t micro_batch,
                               const TensorView& params, const Digest& params_digest,
                               int log2_loss_scale);

  void forget();

  const Experiment& experiment() const { return experiment_; }

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, Digest, int>;
  struct Entry {
    std::once_flag once;
    Grad grad;
  };

  void make(Grad& grad, const GradKey& key, const TensorView& params) const;

  const Experiment& experiment_;
  const KeptGrads kept_;
  const Digest training_;
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<Entry>> entries_;
};

/// Source of the gradients of one step and one set of parameters.
class GradProvider {
 public:
  virtual ~GradProvider() = default;
  /// Valid as long as the provider.
  virtual const GradCache::Grad& micro_batch_grad(std::int64_t micro_batch) = 0;
};

/// From the cache of all cases.
class CacheProvider final : public GradProvider {
 public:
  CacheProvider(GradCache& cache, std::int64_t step, const TensorView& params, int log2_loss_scale)
      : cache_(cache),
        step_(step),
        params_(params),
        digest_(cache.parameters_digest(params)),
        log2_loss_scale_(log2_loss_scale) {}

  const GradCache::Grad& micro_batch_grad(std::int64_t micro_batch) override {
    return cache_.micro_batch_grad(step_, micro_batch, params_, digest_, log2_loss_scale_);
  }

 private:
  GradCache& cache_;
  std::int64_t step_;
  TensorView params_;
  Digest digest_;
  int log2_loss_scale_;
};

/// The gradients of one step for the reference.
class ProvidedGrads : public GradSource {
 public:
  /// layers: the model by layers, or null for whole gradients.
  ProvidedGrads(const Experiment& experiment, std::int64_t step, GradProvider& provider,
                LayeredModel* layers = nullptr)
      : experiment_(experiment), step_(step), provider_(provider), layers_(layers) {}

  TensorView micro_batch_grad(std::int64_t micro_batch) override {
    return provided(micro_batch).view();
  }
  std::int64_t num_tokens(std::int64_t micro_batch) const override {
    return experiment_.num_tokens(micro_batch);
  }
  bool has_grad(std::int64_t micro_batch, std::int64_t tensor) const override {
    return experiment_.has_grad(step_, micro_batch, tensor);
  }
  LayeredModel* layers() override { return layers_; }

 protected:
  const GradCache::Grad& provided(std::int64_t micro_batch) {
    return provider_.micro_batch_grad(micro_batch);
  }

 private:
  const Experiment& experiment_;
  std::int64_t step_;
  GradProvider& provider_;
  LayeredModel* layers_;
};

/// The gradients of one step for a candidate, with only the guarantees of GradSource: a view is a
/// copy that turns into the next gradient at the next call, and into NaN after the last; it must
/// not be edited, and a rank gets only the micro-batches it has to compute (R11).
class StrictGrads final : public ProvidedGrads {
 public:
  using ProvidedGrads::ProvidedGrads;

  TensorView micro_batch_grad(std::int64_t micro_batch) override;

  /// Ends the reduce phase: no more gradients are available. Returns the violations of the
  /// candidate, "" if none.
  std::string finish(std::vector<std::int64_t> expected);

  /// Ends the step: the last view expires. Returns the violation of the candidate, "" if none.
  std::string end_step();

 private:
  void check_unedited();

  GuardedBuffer copy_;
  Digest digest_of_copy_;
  std::vector<std::int64_t> asked_;
  bool finished_ = false;
  bool viewed_ = false;  ///< there is a view that has not expired
  std::string problem_;
};

/// "requested 3 gradients; it must compute 2, ...", or "" if the two lists have the same
/// micro-batches.
std::string wrong_micro_batches(std::vector<std::int64_t> asked,
                                std::vector<std::int64_t> expected);

}  // namespace zeroproof::verification
