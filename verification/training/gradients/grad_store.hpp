#pragma once
// Stores the gradients of a whole run in a file in memory, which GradFile reads.

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "verification/training/gradients/grad_file.hpp"

namespace zeroproof::verification {

/// Threads may call it at the same time. Gradients are written once and mapped read-only, so that a
/// faulty optimizer cannot overwrite them.
class GradStore {
 public:
  /// most_bytes: limit of the file; gradients beyond it are not stored and must be computed again.
  /// Nothing is stored where the system has no files in memory.
  explicit GradStore(std::uint64_t most_bytes);
  ~GradStore();
  GradStore(const GradStore&) = delete;
  GradStore& operator=(const GradStore&) = delete;

  /// The gradient of this key, if stored; valid as long as the store.
  std::optional<StoredGrad> find(const GradKey& key) const;

  /// Copies a gradient into the store and returns the copy; empty if the limit is reached. leaf: in
  /// any memory, with its digest.
  std::optional<StoredGrad> keep(const GradKey& key, const StoredGrad& leaf);

  /// Completes the file with all gradients so far; it may grow and be sealed again. Returns the
  /// path for other processes of this machine and user, valid while this object lives; "" if the
  /// file is empty.
  std::string seal();

  const Digest& run() const { return run_; }

 private:
  bool write(const void* data, std::size_t num_bytes, std::uint64_t offset);

  const Digest run_;
  const std::uint64_t most_bytes_;
  int file_ = -1;
  const std::byte* bytes_ =
      nullptr;  // [most_bytes_], those beyond the end of the file must not be touched
  mutable std::mutex mutex_;
  std::uint64_t end_ = leaf_page;
  std::map<GradKey, GradRecord> records_;
};

}  // namespace zeroproof::verification
