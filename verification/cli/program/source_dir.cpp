#include "verification/cli/program/source_dir.hpp"

#include <filesystem>
#include <system_error>

namespace zeroproof::verification {

std::string source_dir() {
  std::error_code problem;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", problem);
  const std::filesystem::path installed = program.parent_path().parent_path() / "share/zeroproof";
  if (!problem && std::filesystem::is_directory(installed, problem)) return installed.string();
  return ZP_SOURCE_DIR;
}

}  // namespace zeroproof::verification
