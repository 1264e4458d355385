#pragma once
// A process between this one and mpirun that ends the whole job on request or when this process
// ends.

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace zeroproof::verification {

/// A command run under a guard.
struct GuardedCommand {
  std::vector<std::string> words;
  std::vector<std::string> environment;  ///< "NAME=value"
  std::string output;                    ///< file for its output; "": the output of this program
  std::vector<std::string> folders;      ///< removed if this process ends before the command
  std::vector<int> locks;                ///< descriptors the guard holds open
};

/// The command and all its processes on this machine end with the object, with the end of this
/// process from any cause, and on request, even if they are stopped. No process is left when the
/// command has ended.
class JobGuard {
 public:
  /// Errors (ErrorCode::unavailable): the command cannot be started.
  explicit JobGuard(const GuardedCommand& command);
  ~JobGuard();
  JobGuard(const JobGuard&) = delete;
  JobGuard& operator=(const JobGuard&) = delete;

  bool ended_within(std::chrono::milliseconds limit);
  /// Status of waitpid() after the command has ended.
  int status() const { return status_; }
  /// Sends SIGTERM to the command, and SIGKILL to the remaining processes after the time for their
  /// last output. quiet: after one second, because the output is no longer read.
  void end(bool quiet = false);

 private:
  bool read_word(int* word) const;
  void forget();

  pid_t pid_ = -1;
  int link_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

/// Ends the current job of this process, if any, and waits for its end; called before this process
/// ends.
void end_guarded_job();

}  // namespace zeroproof::verification
