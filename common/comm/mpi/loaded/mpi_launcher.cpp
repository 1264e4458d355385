#include "common/comm/mpi/loaded/mpi_launcher.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace zeroproof {

namespace {

std::string first_of_path() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const char* name : {"/mpirun", "/mpiexec"}) {
      if (!folder.empty() && ::access((folder + name).c_str(), X_OK) == 0) return folder + name;
    }
  }
  return "";
}

/// Standard output of the launcher with --version.
std::string version_text(const std::string& path) {
  std::string quoted = "'";
  for (const char c : path) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  std::FILE* const pipe = ::popen((quoted + "' --version 2>/dev/null </dev/null").c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 4096> part{};
  while (const std::size_t count = std::fread(part.data(), 1, part.size(), pipe))
    text.append(part.data(), count);
  ::pclose(pipe);
  return text;
}

MpiLauncher found_launcher() {
  MpiLauncher found;
  found.path = first_of_path();
  if (found.path.empty()) return found;
  const std::string text = version_text(found.path);
  if (text.find("Intel") != std::string::npos) {
    found.kind = MpiLauncher::Kind::intel;
  } else if (text.find("HYDRA") != std::string::npos) {
    found.kind = MpiLauncher::Kind::hydra;
  }
  return found;
}

}  // namespace

const MpiLauncher& mpi_launcher() {
  static const MpiLauncher launcher = found_launcher();
  return launcher;
}

}  // namespace zeroproof
