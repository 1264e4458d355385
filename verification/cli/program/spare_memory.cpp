#include "verification/cli/program/spare_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace zeroproof::verification {
namespace {

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

/// The number a file begins with; `otherwise` if there is none.
std::uint64_t number_in(const std::string& path, std::uint64_t otherwise) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : otherwise;
}

std::uint64_t of_machine() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (std::uint64_t value = 0; file >> key >> value;) {
    if (key == "MemAvailable:") return value * 1024;
    std::getline(file, unit);
  }
  return 0;
}

/// Version 2, as a container sees its own group.
std::uint64_t of_group() {
  const std::uint64_t most = number_in("/sys/fs/cgroup/memory.max", no_limit);
  if (most == no_limit) return no_limit;
  return most - std::min(most, number_in("/sys/fs/cgroup/memory.current", 0));
}

}  // namespace

std::uint64_t spare_memory() { return std::min(of_machine(), of_group()); }

}  // namespace zeroproof::verification
