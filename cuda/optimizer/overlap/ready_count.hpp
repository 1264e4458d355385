#pragma once
// Completion of gradients: reports counted against their expected number.

#include <mutex>
#include <vector>

namespace zeroproof::cuda {

/// Counts the backward visits of units, and returns the buckets completed by each of them.
/// Thread-safe.
class ReadyCount {
 public:
  /// Shapes   expected: [units] reports that make a unit complete, at least 0 (0: a unit that has no
  ///          elements); bucket_units: [buckets] the units a bucket has elements of, each once.
  /// Errors   invalid_argument if a bucket names a unit that does not exist or never reports, or names one
  ///          twice.
  ReadyCount(std::vector<int> expected, std::vector<std::vector<int>> bucket_units);

  struct Completed {
    bool unit = false;         ///< this was the unit's last report
    std::vector<int> buckets;  ///< complete because of it, from the last to the first
  };

  /// One backward visit. Errors: internal if there is no such unit or it has reported as often as expected
  /// already; names the unit and both counts.
  Completed report(int unit);

  /// Errors: internal, naming the bucket and the units it lacks, if the bucket is not complete.
  void require_complete(int bucket) const;

  /// The end of a micro-step. Errors: internal, as above, for the first bucket that is not complete.
  void finish() const;

  /// Forgets all reports.
  void restart();

 private:
  void require_complete_locked(int bucket) const;

  std::vector<int> expected_;
  std::vector<std::vector<int>> bucket_units_;
  std::vector<std::vector<int>> unit_buckets_;  // from the last bucket to the first
  mutable std::mutex mutex_;
  std::vector<int> reported_;  // [units]
  std::vector<int> lacking_;   // [buckets] units that are not complete
};

}  // namespace zeroproof::cuda
