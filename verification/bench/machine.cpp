#include "verification/bench/machine.hpp"

#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "common/base/error.hpp"
#include "common/base/parallel_for.hpp"
#include "cuda/host/base/isa.hpp"

namespace zeroproof::verification::bench {
namespace {

/// The text after "key...:" in a file of such lines, "" without that key.
std::string value_of(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const std::size_t colon = line.find(':');
    const std::size_t text =
        colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    return text == std::string::npos ? "" : line.substr(text);
  }
  return "";
}

std::string gib(double bytes) {
  const auto tenths = static_cast<std::int64_t>(bytes / (1 << 30) * 10 + 0.5);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.cpu = value_of("/proc/cpuinfo", "model name");
  if (machine.cpu.empty()) machine.cpu = "unknown";
  machine.cores = available_cores();
  machine.isa = std::string(cuda::host::name(cuda::host::best_isa()));
  machine.page_bytes = ::sysconf(_SC_PAGESIZE);
  const double anonymous = std::atof(value_of("/proc/self/smaps_rollup", "Anonymous").c_str());
  const double huge = std::atof(value_of("/proc/self/smaps_rollup", "AnonHugePages").c_str());
  machine.huge_page_share = anonymous > 0 ? huge / anonymous : 0;
  double averages[1] = {};
  if (::getloadavg(averages, 1) == 1) machine.load = averages[0];
  return machine;
}

void require_memory(const std::string& what, double bytes, const std::string& flag) {
  const double available = 1024 * std::atof(value_of("/proc/meminfo", "MemAvailable").c_str());
  ZP_CHECK(available <= 0 || bytes < available, ErrorCode::unavailable,
           what + " would take " + gib(bytes) + " of memory, and " + gib(available) + " are free",
           "the system would end this program", "choose a smaller " + flag);
}

}  // namespace zeroproof::verification::bench
