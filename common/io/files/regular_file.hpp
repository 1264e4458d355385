#pragma once
// Devices and pipes are no input: reading one may never end, and nobody could read the same bytes again.

#include <filesystem>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof {

/// Errors (ErrorCode::config): there is something at `path`, and it is no regular file. `what` names its kind:
/// "configuration file". Whether it is there and can be read is found out by opening it.
inline void require_regular_file(const std::string& path, const std::string& what) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  const bool is_folder = std::filesystem::is_directory(status);
  ZP_CHECK(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status),
           ErrorCode::config,
           what + " " + path + (is_folder ? " is a directory" : " is a device or a pipe"),
           "a run must be able to read the same bytes again", "name a plain file");
}

}  // namespace zeroproof
