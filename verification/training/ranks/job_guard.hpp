#pragma once
// A process between this one and mpirun, that ends all of a job when it is asked to, or when this process is gone.

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace zeroproof::verification {

/// What a guard starts and guards.
struct GuardedCommand {
  std::vector<std::string> words;
  std::vector<std::string> environment;  ///< "NAME=value"
  std::string output;  ///< file that gets what it prints; "": where this program's goes
  std::vector<std::string> folders;  ///< removed, should this process end before the command
  std::vector<int> locks;            ///< descriptors the guard holds open
};

/// The command, and whatever it started that did not leave this machine, ends with the object, with the end of this
/// process whatever it dies of, and on request; processes that are stopped too. A command that has ended leaves nobody.
class JobGuard {
 public:
  /// Errors (ErrorCode::unavailable): the command cannot be started.
  explicit JobGuard(const GuardedCommand& command);
  ~JobGuard();
  JobGuard(const JobGuard&) = delete;
  JobGuard& operator=(const JobGuard&) = delete;

  bool ended_within(std::chrono::milliseconds limit);
  /// As waitpid() has it; once the command has ended.
  int status() const { return status_; }
  /// SIGTERM to the command, and SIGKILL to all that is left after the time that it takes to say what it has to say;
  /// or, if nobody listens any more, after a second.
  void end(bool nobody_listens = false);

 private:
  bool read_word(int* word) const;
  void forget();

  pid_t pid_ = -1;
  int link_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

/// Ends the job under way in this process, if there is one, and returns when it is gone; for whoever ends this process.
void end_guarded_job();

}  // namespace zeroproof::verification
