#pragma once
// What a plug-in's process may have. This stops accidents, not attackers.

#include <cstdint>

namespace zeroproof::verification {

struct PluginLimits {
  double seconds = 10;                                ///< for a call, and for being loaded
  std::int64_t memory_bytes = std::int64_t{4} << 30;  ///< of its own; what is shared does not count
  std::int64_t file_bytes = std::int64_t{64} << 20;   ///< of any file it writes
  std::int64_t output_bytes = std::int64_t{1} << 20;  ///< on standard output and error, in one call
};

/// For a child between fork and exec: limits of memory, files, processes; no core files; a session of its own.
void limit_child(const PluginLimits& limits);

/// For the process itself, before it loads a plug-in: from here on, whoever starts a process ends it (signal SIGSYS),
/// and other processes' memory cannot be read. Threads may be started. Nothing happens where the kernel cannot do that.
void forbid_processes();

}  // namespace zeroproof::verification
