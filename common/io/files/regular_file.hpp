#pragma once
// Devices and pipes are not accepted as input: reading may never end, and the same bytes cannot be
// read again.

#include <filesystem>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof {

/// Errors (ErrorCode::config): `path` exists, and is not a regular file. `what` names its kind:
/// "configuration file". A missing or unreadable file is reported when it is opened.
inline void require_regular_file(const std::string& path, const std::string& what) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  const bool is_folder = std::filesystem::is_directory(status);
  ZP_CHECK(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status),
           ErrorCode::config,
           what + " " + path + (is_folder ? " is a directory" : " is a device or a pipe"),
           "a run must be able to read the same bytes again", "use a regular file");
}

}  // namespace zeroproof
