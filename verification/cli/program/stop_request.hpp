#pragma once
// Ctrl-C and SIGTERM, for a run that ends by itself where it can be resumed.

#include <array>
#include <csignal>

namespace zeroproof::verification {

/// During its lifetime the first of these signals is recorded, with no other effect. A second one
/// ends the process as usual; one within a fifth of a second counts as the first: some programs
/// send it to a process and to its group. A signal that was ignored at the start of the process
/// stays ignored. At most one of these objects exists.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// The signal; 0 as long as there was none.
  int signal() const;

 private:
  static constexpr std::array<int, 2> signals = {SIGINT, SIGTERM};
  std::array<struct sigaction, signals.size()> before_{};
};

}  // namespace zeroproof::verification
