#pragma once

#include <cstdint>
#include <string>

namespace zeroproof::verification::bench {

struct Machine {
  std::string cpu;  ///< model name from the kernel, "unknown" without one
  int cores = 1;    ///< that this process may use
  std::string isa;  ///< of the implementations
  std::int64_t page_bytes = 0;
  double huge_page_share = 0;  ///< part of this process's anonymous memory in huge pages, now
  double load = 0;             ///< load average over one minute, now
};

Machine this_machine();

/// Errors: unavailable if this machine has less free memory now. what: "the kernel rows"; flag: the
/// option to lower.
void require_memory(const std::string& what, double bytes, const std::string& flag);

}  // namespace zeroproof::verification::bench
