#pragma once
// A file as chunks of 1 MiB, each with its XXH3-128: damage is detected and located.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/digest.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

inline constexpr std::int64_t chunk_bytes = std::int64_t{1} << 20;

/// The remedy in messages about damaged checkpoints.
inline constexpr const char* take_another =
    "take another checkpoint (zeroproof checkpoint inspect lists them)";

/// Record of a file in the manifest.
struct FileRecord {
  std::string name;
  std::int64_t num_bytes = 0;
  std::vector<Digest> chunks;  ///< [ceil(num_bytes / chunk_bytes)]

  bool operator==(const FileRecord&) const = default;
};

}  // namespace zeroproof
