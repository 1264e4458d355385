#include "verification/report/own_descriptor.hpp"

#include <charconv>
#include <filesystem>

namespace zeroproof::verification {

namespace fs = std::filesystem;

std::optional<int> own_descriptor(const std::string& path) {
  std::error_code error;
  const fs::path descriptors = fs::canonical("/proc/self/fd", error);
  if (error) return std::nullopt;
  fs::path at(path);
  for (int links = 0; links < 40; ++links) {
    const fs::path folder =
        fs::canonical(at.has_parent_path() ? at.parent_path() : fs::path("."), error);
    if (error) return std::nullopt;
    if (folder == descriptors) {
      const std::string digits = at.filename().string();
      int descriptor = -1;
      const auto [end, failure] =
          std::from_chars(digits.data(), digits.data() + digits.size(), descriptor);
      if (failure == std::errc() && end == digits.data() + digits.size() && descriptor >= 0)
        return descriptor;
      return std::nullopt;
    }
    if (!fs::is_symlink(fs::symlink_status(at, error))) return std::nullopt;
    const fs::path next = fs::read_symlink(at, error);
    if (error) return std::nullopt;
    at = folder / next;  // an absolute link replaces the folder
  }
  return std::nullopt;
}

}  // namespace zeroproof::verification
