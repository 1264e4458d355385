#pragma once
// The memory walk of a layer-by-layer pass, a second writing of what cuda/layered_pass.hpp says.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/cuda/runtime/pass_run.hpp"

namespace zeroproof::tests::inline runtime_fixtures {

/// Peaks of parameters and gradients as cuda/layered_pass.hpp describes them, walked in the order of that
/// text.
struct Walk {
  std::int64_t param_peak = 0, grad_peak = 0;
};

class WalkOfPass {
 public:
  explicit WalkOfPass(const PassCase& run)
      : run_(run),
        layout_(odd_layout()),
        units_(units_from(layout_, run.units)),
        buckets_(ShardMap(layout_.padded_numel(), run.world, run.bucket_numel).buckets()),
        s_(run.visits) {
    s_.insert(s_.end(), run.visits.rbegin(), run.visits.rend());
    held_.assign(buckets_.size(), false);
  }

  Walk walk() {
    const std::size_t n = s_.size();
    for (std::size_t u = 0; u < units_.size(); ++u) params_ += is_persistent(u) ? whole(u) : 0;
    for (std::size_t i = 0; i < n; ++i) {
      const auto u = static_cast<std::size_t>(s_[i]);
      if (i == 0 || s_[i - 1] != s_[i]) {
        if (!run_.overlap || i == 0) add_params(gathered(u));
        std::size_t v = i;
        while (v < n && s_[v] == s_[i]) ++v;
        if (run_.overlap && v < n) add_params(gathered(static_cast<std::size_t>(s_[v])));
      }
      if (run_.overlap && i > 0 && is_last(i - 1)) seal(i - 1);
      if (i >= n / 2) {
        if (run_.overlap) free_due(i);
        if (std::find(s_.begin() + static_cast<std::ptrdiff_t>(n / 2), s_.end(), s_[i]) ==
            s_.begin() + static_cast<std::ptrdiff_t>(i)) {
          add_grads(leaf(units_[u]));
        }
        if (!run_.overlap && is_last(i)) seal(i);
      }
      if (i + 1 == n || s_[i + 1] != s_[i]) params_ -= gathered(u);
    }
    if (run_.overlap && n > 0) seal(n - 1);
    free_due(n + 2);
    if (grads_ != 0) peak_.grad_peak = -1;  // the walk is not closed
    return peak_;
  }

 private:
  bool is_persistent(std::size_t u) const {
    if (run_.stage != 3 || units_[u].numel() == 0) return false;
    for (const TensorSlot& tensor : layout_.tensors()) {
      const bool inside = tensor.begin >= units_[u].begin && tensor.begin < units_[u].end;
      if (inside && tensor.numel > run_.persistent_numel) return false;
    }
    return true;
  }
  std::int64_t whole(std::size_t u) const { return units_[u].numel() * num_bytes(run_.param_dtype); }
  std::int64_t gathered(std::size_t u) const { return run_.stage == 2 || is_persistent(u) ? 0 : whole(u); }
  std::int64_t leaf(const FlatRange& range) const { return range.numel() * num_bytes(run_.leaf_dtype); }
  bool is_last(std::size_t i) const {
    return i >= s_.size() / 2 &&
           std::count(s_.begin() + static_cast<std::ptrdiff_t>(i + 1), s_.end(), s_[i]) == 0;
  }
  bool meets(const FlatRange& bucket, std::size_t u) const {
    return std::max(bucket.begin, units_[u].begin) < std::min(bucket.end, units_[u].end);
  }
  std::size_t units_in(const FlatRange& bucket) const {
    std::size_t count = 0;
    for (std::size_t u = 0; u < units_.size(); ++u) count += meets(bucket, u) ? 1U : 0U;
    return count;
  }
  void add_params(std::int64_t bytes) {
    params_ += bytes;
    peak_.param_peak = std::max(peak_.param_peak, params_);
  }
  void add_grads(std::int64_t bytes) {
    grads_ += bytes;
    peak_.grad_peak = std::max(peak_.grad_peak, grads_);
  }
  void seal(std::size_t k) {
    const auto u = static_cast<std::size_t>(s_[k]);
    bool viewed = false;
    std::int64_t due = 0;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      if (!meets(buckets_[b], u)) continue;
      if (units_in(buckets_[b]) == 1) {
        viewed = true;
        continue;
      }
      if (!held_[b]) add_grads(leaf(buckets_[b]));
      held_[b] = true;
      bool complete = true;
      for (std::size_t i = k + 1; i < s_.size(); ++i) {
        complete = complete && !meets(buckets_[b], static_cast<std::size_t>(s_[i]));
      }
      if (complete) due += leaf(buckets_[b]);
    }
    if (viewed) {
      due += leaf(units_[u]);
    } else {
      grads_ -= leaf(units_[u]);
    }
    due_.emplace_back(k + (run_.overlap ? 2 : 0), due);
    if (!run_.overlap) free_due(k);
  }
  void free_due(std::size_t i) {
    for (auto& [when, bytes] : due_) {
      if (when <= i) grads_ -= std::exchange(bytes, 0);
    }
  }

  const PassCase& run_;
  const FlatLayout layout_;
  const std::vector<FlatRange> units_, buckets_;
  std::vector<int> s_;
  std::vector<bool> held_;
  std::vector<std::pair<std::size_t, std::int64_t>> due_;
  std::int64_t params_ = 0, grads_ = 0;
  Walk peak_;
};

}  // namespace zeroproof::tests::inline runtime_fixtures
