#pragma once
// The names in a folder.

#include <optional>
#include <string>
#include <vector>

#include "common/io/files/open_file.hpp"

namespace zeroproof::verification {

/// Sorted, without "." and ".."; nothing if the folder cannot be read, and errno says why. Memory that runs out is
/// bad_alloc here, as anywhere: iterators of std::filesystem end the program then (libstdc++ 12).
inline std::optional<std::vector<std::string>> names_in(const std::string& path) {
  Disk& disk = system_disk();
  const OpenFile folder(disk, disk.open_root(path.c_str()));
  return folder.is_open() ? disk.list(folder.handle()) : std::nullopt;
}

}  // namespace zeroproof::verification
