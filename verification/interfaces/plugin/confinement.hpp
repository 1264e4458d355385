#pragma once
// Limits of a plug-in's process. They stop accidents, not attackers.

#include <cstdint>

namespace zeroproof::verification {

struct PluginLimits {
  double seconds = 10;                                ///< for a call, and for loading
  std::int64_t memory_bytes = std::int64_t{4} << 30;  ///< without shared memory
  std::int64_t file_bytes = std::int64_t{64} << 20;   ///< of any file it writes
  std::int64_t output_bytes = std::int64_t{1} << 20;  ///< on standard output and error, in one call
};

/// For a child between fork and exec: limits of memory, files, processes; no core files; a session of its own.
void limit_child(const PluginLimits& limits);

/// For the process itself, before it loads a plug-in: afterwards starting a process ends it (signal
/// SIGSYS), and signals to other processes fail with EPERM. Threads may be started. No effect on
/// kernels without seccomp.
void forbid_processes();

/// Rules of forbid_others(), as a descriptor to close; -1 on kernels without Landlock. May allocate,
/// and reads the folders / and /dev.
int landlock_rules();
/// For a child of the judge, between fork and exec. Limits, priorities, scheduling and memory of
/// other processes and threads, events on them (perf, bpf, fanotify), signals to the judge, files
/// that send signals, and stopping a terminal or typing into it are EPERM; no effect on kernels
/// without seccomp. EACCES for memory of other processes, in /proc too, for writing in /proc and
/// /sys and for terminals, and no signals to other processes since landlock_with_signals; no effect
/// on kernels without Landlock. The kernel ends this process first where memory runs out.
void forbid_others(int rules);
inline constexpr int landlock_with_terminals = 5, landlock_with_signals = 6;
int landlock_version();  ///< of the kernel; 0 without Landlock

}  // namespace zeroproof::verification
