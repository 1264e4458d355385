#include "verification/tools/plan/predict/layered_walk.hpp"

#include <algorithm>
#include <vector>

namespace zeroproof {
namespace {

/// Entries of shape.buckets that have elements of a unit: [first, last).
struct BucketSpan {
  std::size_t first = 0;
  std::size_t last = 0;
};

class MicroStep {
 public:
  MicroStep(const PredictedStep& shape, bool computes, const LayeredEvents& events)
      : shape_(shape), events_(events), leaf_bytes_(computes ? num_bytes(shape.grad_dtype) : 0) {
    sequence_.assign(shape.visits.begin(), shape.visits.end());
    sequence_.insert(sequence_.end(), shape.visits.rbegin(), shape.visits.rend());
    find_buckets();
    last_visit_.assign(shape.units.size(), 0);
    for (std::size_t i = 0; i < sequence_.size(); ++i) last_visit_[unit(i)] = i;
    begun_.assign(shape.units.size(), false);
  }

  void run() {
    for (std::size_t i = 0; i < sequence_.size(); ++i) visit(i);
    if (sequence_.empty()) return;
    if (shape_.overlap) seal(unit(sequence_.size() - 1), sequence_.size() - 1);
    free_due(sequence_.size() + 2);
  }

 private:
  struct Due {
    std::size_t visit;
    std::int64_t bytes;
  };

  std::size_t unit(std::size_t i) const { return static_cast<std::size_t>(sequence_[i]); }
  bool is_last_visit(std::size_t i) const { return last_visit_[unit(i)] == i; }

  void find_buckets() {
    buckets_of_.resize(shape_.units.size());
    units_in_.assign(shape_.buckets.size(), 0);
    sealed_in_ = units_in_;
    for (std::size_t u = 0; u < shape_.units.size(); ++u) {
      const FlatRange& range = shape_.units[u].range;
      if (range.numel() == 0) continue;
      const auto first = std::upper_bound(
          shape_.buckets.begin(), shape_.buckets.end(), range.begin,
          [](std::int64_t begin, const BucketShape& bucket) { return begin < bucket.all().end; });
      auto last = first;
      for (; last != shape_.buckets.end() && last->range.begin < range.end; ++last) {
        ++units_in_[last - shape_.buckets.begin()];
      }
      buckets_of_[u] = {static_cast<std::size_t>(first - shape_.buckets.begin()),
                        static_cast<std::size_t>(last - shape_.buckets.begin())};
    }
  }

  std::int64_t param_bytes(std::size_t u) const {
    const bool gathered = shape_.stage == 3 && !(u < shape_.stays.size() && shape_.stays[u]);
    return gathered ? shape_.units[u].range.numel() * num_bytes(shape_.param_dtype) : 0;
  }

  void open(std::size_t u) {
    const std::int64_t bytes = param_bytes(u);
    if (bytes == 0) return;
    events_.params(bytes);
    events_.gather(u);
  }

  void visit(std::size_t i) {
    const std::size_t u = unit(i);
    const std::size_t n = sequence_.size();
    if (i == 0 || unit(i - 1) != u) {
      if (!shape_.overlap || i == 0) open(u);
      std::size_t next = i + 1;
      while (next < n && unit(next) == u) ++next;
      if (shape_.overlap && next < n) open(unit(next));
    }
    if (shape_.overlap && i > n / 2 && is_last_visit(i - 1)) seal(unit(i - 1), i - 1);
    if (i >= n / 2) {
      if (shape_.overlap) free_due(i);
      if (!begun_[u]) events_.grads(shape_.units[u].range.numel() * leaf_bytes_);
      begun_[u] = true;
      if (!shape_.overlap && is_last_visit(i)) seal(u, i);
    }
    if (i + 1 == n || unit(i + 1) != u) events_.params(-param_bytes(u));
  }

  /// The gradient of a unit is complete: so are buckets that end with it.
  void seal(std::size_t u, std::size_t at) {
    const BucketSpan span = buckets_of_[u];
    bool alone = false;
    for (std::size_t b = span.first; b < span.last; ++b) {
      if (units_in_[b] == 1) alone = true;
      if (units_in_[b] > 1 && sealed_in_[b] == 0) events_.grads(bucket_bytes(b));
      ++sealed_in_[b];
    }
    for (std::size_t b = span.last; b-- > span.first;) {
      if (sealed_in_[b] == units_in_[b]) events_.reduce(b);
    }
    for (std::size_t b = span.first; b < span.last; ++b) {
      if (sealed_in_[b] == units_in_[b] && units_in_[b] > 1) free_at(at + 2, bucket_bytes(b));
    }
    const std::int64_t unit_bytes = shape_.units[u].range.numel() * leaf_bytes_;
    if (alone) free_at(at + 2, unit_bytes);
    if (!alone) events_.grads(-unit_bytes);
  }

  std::int64_t bucket_bytes(std::size_t b) const {
    return shape_.buckets[b].range.numel() * leaf_bytes_;
  }

  void free_at(std::size_t visit, std::int64_t bytes) {
    if (shape_.overlap) {
      due_.push_back({visit, bytes});
    } else {
      events_.grads(-bytes);
    }
  }

  void free_due(std::size_t i) {
    for (Due& due : due_) {
      if (due.visit > i || due.bytes == 0) continue;
      events_.grads(-due.bytes);
      due.bytes = 0;
    }
    due_.erase(
        std::remove_if(due_.begin(), due_.end(), [](const Due& due) { return due.bytes == 0; }),
        due_.end());
  }

  const PredictedStep& shape_;
  const LayeredEvents& events_;
  const std::int64_t leaf_bytes_;
  std::vector<int> sequence_;  ///< forward visits, then backward ones
  std::vector<std::size_t> last_visit_;
  std::vector<bool> begun_;  ///< [units] the gradient's memory is allocated
  std::vector<BucketSpan> buckets_of_;
  std::vector<int> units_in_;   ///< [buckets] units that have elements of it
  std::vector<int> sealed_in_;  ///< [buckets] those that are complete
  std::vector<Due> due_;
};

}  // namespace

void walk_micro_step(const PredictedStep& shape, bool computes, const LayeredEvents& events) {
  MicroStep(shape, computes, events).run();
}

}  // namespace zeroproof
