#pragma once
// Available memory, for the number of cases that run at the same time.

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

namespace zeroproof::verification {

/// Bytes that this machine can allocate without swapping, or its control group (version 2) if it
/// allows fewer. 0 if the system does not report it.
inline std::uint64_t available_memory() {
  std::ifstream machine("/proc/meminfo");
  std::string word;
  while (machine >> word && word != "MemAvailable:") continue;
  std::uint64_t kibibytes = 0, limit = 0, used = 0;
  machine >> kibibytes;
  std::ifstream group_limit("/sys/fs/cgroup/memory.max");
  if (!(group_limit >> limit)) return kibibytes * 1024;  // no group, or "max"
  std::ifstream("/sys/fs/cgroup/memory.current") >> used;
  return std::min(kibibytes * 1024, limit - std::min(limit, used));
}

}  // namespace zeroproof::verification
