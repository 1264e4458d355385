#pragma once
// Ctrl-C, SIGTERM and SIGHUP, for a run that has results already.

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

namespace zeroproof::verification {

/// During its lifetime the first of these signals calls last_words(signal) on a separate thread,
/// however busy all others are; then the process ends by that signal, as usual. The second one ends
/// it at once. A signal that was ignored at the start of the process (nohup) stays ignored.
class Interruption {
 public:
  explicit Interruption(std::function<void(int signal)> last_words);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

 private:
  struct Watch;
  std::unique_ptr<Watch> watch_;
};

/// "SIGTERM"
std::string signal_name(int signal);

}  // namespace zeroproof::verification
