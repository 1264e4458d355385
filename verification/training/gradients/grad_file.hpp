#pragma once
// Leaves in a file in memory: computed by one process, read by all ranks of the MPI jobs it starts.
//
//   page 0     GradFileHeader
//   then       the bytes of leaves, padding included, each from a page's beginning
//   then       GradRecord[count], once the file is sealed

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/base/digest.hpp"
#include "common/base/span.hpp"

namespace zeroproof::verification {

/// The inputs that determine a gradient.
struct GradKey {
  Digest training;  ///< of workload, recipe and dtype; their settings are those of the run
  std::int64_t step = 0;
  std::int64_t micro_batch = 0;
  Digest params;
  std::int64_t log2_loss_scale = 0;

  auto operator<=>(const GradKey&) const = default;
};

/// A gradient in read-only memory.
struct StoredGrad {
  TensorView values;  ///< [padded_numel]
  double loss = 0;
  Digest digest;  ///< of all bytes
};

struct GradRecord {
  GradKey key;
  std::uint64_t dtype = 0, numel = 0, offset = 0;
  double loss = 0;
  Digest digest;
};

struct GradFileHeader {
  char magic[16] = {};
  Digest run;  ///< drawn at random by the process that wrote the file
  std::uint64_t count = 0, records_begin = 0;
  Digest records;
};

inline constexpr char leaf_file_magic[16] = "zeroproof-leaf1";
inline constexpr std::size_t leaf_page = 4096;

/// The gradients of a file sealed by GradStore, read in place. Threads may call it at the same
/// time.
class GradFile {
 public:
  /// Errors (ErrorCode::io): the file cannot be read, is no sealed gradient file, belongs to
  /// another run, or is damaged.
  GradFile(const std::string& path, const Digest& run);
  ~GradFile();
  GradFile(const GradFile&) = delete;
  GradFile& operator=(const GradFile&) = delete;

  /// The gradient of this key, if the file has it. Errors (ErrorCode::io): its bytes are not the
  /// stored ones.
  std::optional<StoredGrad> find(const GradKey& key) const;

 private:
  void read_records(const std::string& path, const Digest& run);

  const std::byte* bytes_ = nullptr;
  std::size_t num_bytes_ = 0;
  std::map<GradKey, GradRecord> records_;
};

}  // namespace zeroproof::verification
