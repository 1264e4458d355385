#include "verification/leaf_cache.hpp"

namespace zeroproof::verification {

const LeafCache::Leaf& LeafCache::leaf(std::int64_t step, std::int64_t micro_batch, const TensorView& params,
                                       const Digest& params_digest, int log2_loss_scale) {
  Entry* entry = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Entry>& slot = entries_[Key{step, micro_batch, params_digest, log2_loss_scale}];
    if (!slot) slot = std::make_unique<Entry>();
    entry = slot.get();
  }
  std::call_once(entry->once, [&] {
    entry->leaf.values = GuardedBuffer(experiment_.layout().padded_numel(), experiment_.leaf_dtype());
    entry->leaf.loss =
        experiment_.leaf(step, micro_batch, params, log2_loss_scale, entry->leaf.values.view());
    entry->leaf.digest = parameters_digest(entry->leaf.values.view());
  });
  return entry->leaf;
}

bool LeafCache::unchanged() {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, entry] : entries_) {
    if (parameters_digest(entry->leaf.values.view()) != entry->leaf.digest) return false;
    if (!entry->leaf.values.guards_intact()) return false;
  }
  return true;
}

void LeafCache::forget() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

}  // namespace zeroproof::verification
