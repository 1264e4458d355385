#pragma once
// Where one process keeps the leaves of a whole run: in a file in memory, which GradFile reads.

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "verification/training/gradients/grad_file.hpp"

namespace zeroproof::verification {

/// Threads may call it at the same time. What it has is written once and mapped read-only, so a wrong optimizer that
/// writes where it may not cannot spoil it.
class GradStore {
 public:
  /// most_bytes: leaves that would need more are not kept, and have to be computed again. Where the system has no files
  /// in memory, none are.
  explicit GradStore(std::uint64_t most_bytes);
  ~GradStore();
  GradStore(const GradStore&) = delete;
  GradStore& operator=(const GradStore&) = delete;

  /// The leaf of this key, if it is there; it stays as long as the store.
  std::optional<StoredGrad> find(const GradKey& key) const;

  /// Takes over a leaf and returns it where it now lies, or nothing if there is no room for it. leaf: in anybody's
  /// memory, with its digest.
  std::optional<StoredGrad> keep(const GradKey& key, const StoredGrad& leaf);

  /// Completes the file with all that is in it; it may go on to grow, and be sealed again. "" if it holds nothing.
  /// Otherwise where other processes of this machine and user find it while this object lives.
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
