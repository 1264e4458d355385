#pragma once
// Check before a checkpoint is written: enough free space.

#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include "common/base/error.hpp"

namespace zeroproof::verification {

/// Errors (ErrorCode::io): the disk of `folder`, or of its parent while it does not exist, has
/// fewer than `bytes` free. If the free space is unknown, the write itself reports the error.
inline void require_free_space(const std::string& folder, std::uint64_t bytes) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  fs::path place = fs::absolute(folder, unknown).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();  // "runs/"
  if (!fs::exists(place, unknown)) place = place.parent_path();
  const auto space = fs::space(place, unknown);
  ZP_CHECK(unknown || space.available >= bytes, ErrorCode::io,
           folder + " has " + std::to_string(space.available) + " bytes of free space for " +
               std::to_string(bytes) + " bytes of state",
           "the next checkpoint would not fit",
           "free some space, or name a folder on another disk");
}

}  // namespace zeroproof::verification
