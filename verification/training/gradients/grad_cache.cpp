#include "verification/training/gradients/grad_cache.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/error.hpp"

namespace zeroproof::verification {
namespace {

Digest digest_of_training(const Experiment& experiment) {
  Hasher hasher;
  hasher.add(experiment.workload());
  hasher.add(experiment.recipe());
  hasher.add(name(experiment.param_dtype()));
  return hasher.digest();
}

Digest digest_of_bytes(const TensorView& view) { return raw_digest(view.data, view.num_bytes()); }

}  // namespace

GradCache::GradCache(const Experiment& experiment, const KeptGrads& kept)
    : experiment_(experiment), kept_(kept), training_(digest_of_training(experiment)) {}

Digest GradCache::parameters_digest(const TensorView& params) const {
  std::vector<Digest> digests;
  for (const TensorSlot& slot : experiment_.layout().tensors()) {
    const std::int64_t width = num_bytes(params.dtype);
    digests.push_back(raw_digest(static_cast<const std::byte*>(params.data) + slot.begin * width,
                                 slot.numel * width));
  }
  return raw_digest(digests.data(), static_cast<std::int64_t>(digests.size() * sizeof(Digest)));
}

const GradCache::Grad& GradCache::micro_batch_grad(std::int64_t step, std::int64_t micro_batch,
                                                   const TensorView& params,
                                                   const Digest& params_digest,
                                                   int log2_loss_scale) {
  Entry* entry = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Entry>& slot = entries_[Key{step, micro_batch, params_digest, log2_loss_scale}];
    if (!slot) slot = std::make_unique<Entry>();
    entry = slot.get();
  }
  const GradKey key{training_, step, micro_batch, params_digest, log2_loss_scale};
  std::call_once(entry->once, [&] { make(entry->grad, key, params); });
  return entry->grad;
}

void GradCache::make(Grad& grad, const GradKey& key, const TensorView& params) const {
  std::optional<StoredGrad> there;
  if (kept_.file != nullptr) there = kept_.file->find(key);
  if (!there && kept_.store != nullptr) there = kept_.store->find(key);
  if (!there) {
    grad.values = GuardedBuffer(experiment_.layout().padded_numel(), experiment_.grad_dtype());
    grad.loss =
        experiment_.micro_batch_grad(key.step, key.micro_batch, params,
                                     static_cast<int>(key.log2_loss_scale), grad.values.view());
    grad.digest = digest_of_bytes(grad.values.view());
    if (kept_.store != nullptr)
      there = kept_.store->keep(key, {grad.values.view(), grad.loss, grad.digest});
  }
  if (!there) return;
  grad = {GuardedBuffer(), there->loss, there->digest, there->values};
}

void GradCache::forget() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

TensorView StrictGrads::micro_batch_grad(std::int64_t micro_batch) {
  ZP_CHECK(!finished_, ErrorCode::internal, "a gradient was requested outside the reduce phase",
           "gradients are valid only in that phase", "copy the values that later phases need");
  check_unedited();
  const GradCache::Grad& leaf = provided(micro_batch);
  // The last view then reads the new gradient, which is as wrong as NaN.
  const TensorView values = leaf.view();
  if (copy_.numel() == 0) copy_ = GuardedBuffer(values.numel, values.dtype);
  if (copy_.numel() > 0)
    std::memcpy(copy_.data(), values.data, static_cast<std::size_t>(values.num_bytes()));
  digest_of_copy_ = leaf.digest;
  asked_.push_back(micro_batch);
  viewed_ = true;
  return copy_.view();
}

void StrictGrads::check_unedited() {
  if (!viewed_) return;
  viewed_ = false;
  const bool edited = digest_of_bytes(copy_.view()) != digest_of_copy_ || !copy_.guards_intact();
  if (edited && problem_.empty()) {
    problem_ = "edited the gradient of micro-batch " + std::to_string(asked_.back()) +
               ", which belongs to the caller";
  }
}

std::string StrictGrads::finish(std::vector<std::int64_t> expected) {
  finished_ = true;
  if (problem_.empty()) problem_ = wrong_micro_batches(asked_, std::move(expected));
  return std::exchange(problem_, {});
}

std::string StrictGrads::end_step() {
  check_unedited();
  copy_.poison();
  return std::exchange(problem_, {});
}

std::string wrong_micro_batches(std::vector<std::int64_t> asked,
                                std::vector<std::int64_t> expected) {
  std::sort(asked.begin(), asked.end());
  std::sort(expected.begin(), expected.end());
  if (asked == expected) return {};
  return "requested " + std::to_string(asked.size()) + " gradients; it must compute " +
         std::to_string(expected.size()) + ", each once, and no other rank's";
}

}  // namespace zeroproof::verification
