#pragma once
// Ctrl-C, SIGTERM and SIGHUP, for a run that has results already.

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

namespace zeroproof::verification {

/// While it lives, the first of these signals has last_words(signal) called on a thread of its own, however busy all
/// others are; then the process dies of that signal, as everybody expects. The second one ends it at once. A signal
/// that was ignored when the process began (nohup) stays ignored.
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
