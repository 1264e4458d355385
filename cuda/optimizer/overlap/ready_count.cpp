#include "cuda/optimizer/overlap/ready_count.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.hpp"

namespace zeroproof::cuda {

ReadyCount::ReadyCount(std::vector<int> expected, std::vector<std::vector<int>> bucket_units)
    : expected_(std::move(expected)),
      bucket_units_(std::move(bucket_units)),
      unit_buckets_(expected_.size()) {
  for (std::size_t b = bucket_units_.size(); b-- > 0;) {
    for (const int unit : bucket_units_[b]) {
      ZP_CHECK(
          unit >= 0 && static_cast<std::size_t>(unit) < expected_.size() && expected_[unit] > 0,
          ErrorCode::invalid_argument,
          "bucket " + std::to_string(b) + " has elements of unit " + std::to_string(unit) +
              ", which is never visited",
          "its gradient would never be complete", "visit every unit that has elements");
      std::vector<int>& buckets = unit_buckets_[unit];
      ZP_CHECK(buckets.empty() || buckets.back() != static_cast<int>(b),
               ErrorCode::invalid_argument,
               "bucket " + std::to_string(b) + " names unit " + std::to_string(unit) + " twice",
               "it would wait for two gradients of it", "name every unit once");
      buckets.push_back(static_cast<int>(b));
    }
  }
  restart();
}

ReadyCount::Completed ReadyCount::report(int unit) {
  ZP_CHECK(unit >= 0 && static_cast<std::size_t>(unit) < expected_.size(), ErrorCode::internal,
           "a gradient of unit " + std::to_string(unit) + " is out of range",
           "the number of units is " + std::to_string(expected_.size()),
           "report this with the command line");
  const auto u = static_cast<std::size_t>(unit);
  const std::lock_guard lock(mutex_);
  ZP_CHECK(reported_[u] < expected_[u], ErrorCode::internal,
           "unit " + std::to_string(unit) + " reported its gradient " +
               std::to_string(reported_[u] + 1) + " times and " + std::to_string(expected_[u]) +
               " are expected",
           "its buckets may have been reduced already", "report every backward visit once");
  Completed completed;
  completed.unit = ++reported_[u] == expected_[u];
  if (!completed.unit) return completed;
  for (const int bucket : unit_buckets_[u]) {
    if (--lacking_[bucket] == 0) completed.buckets.push_back(bucket);
  }
  return completed;
}

void ReadyCount::require_complete(int bucket) const {
  ZP_CHECK(bucket >= 0 && static_cast<std::size_t>(bucket) < bucket_units_.size(),
           ErrorCode::internal, "bucket " + std::to_string(bucket) + " is out of range",
           "the number of buckets is " + std::to_string(bucket_units_.size()),
           "report this with the command line");
  const std::lock_guard lock(mutex_);
  require_complete_locked(bucket);
}

void ReadyCount::require_complete_locked(int bucket) const {
  if (lacking_[bucket] == 0) return;
  std::string units;
  for (const int unit : bucket_units_[bucket]) {
    const auto u = static_cast<std::size_t>(unit);
    if (reported_[u] == expected_[u]) continue;
    units += (units.empty() ? "" : ", ") + std::to_string(unit) + " (" +
             std::to_string(reported_[u]) + " of " + std::to_string(expected_[u]) + " reports)";
  }
  fail(ErrorCode::internal,
       "bucket " + std::to_string(bucket) + " is not complete: it lacks unit " + units,
       "its gradient would be reduced with elements not yet written",
       "reduce it after the last backward visit of all of its units");
}

void ReadyCount::finish() const {
  const std::lock_guard lock(mutex_);
  for (std::size_t b = 0; b < bucket_units_.size(); ++b)
    require_complete_locked(static_cast<int>(b));
}

void ReadyCount::restart() {
  const std::lock_guard lock(mutex_);
  reported_.assign(expected_.size(), 0);
  lacking_.clear();
  for (const std::vector<int>& units : bucket_units_)
    lacking_.push_back(static_cast<int>(units.size()));
}

}  // namespace zeroproof::cuda
