#pragma once
// The process that holds a plug-in, as seen by this one.

#include <sys/types.h>

#include <memory>
#include <string>

#include "verification/interfaces/plugin/confinement.hpp"
#include "verification/interfaces/plugin/wire.hpp"

namespace zeroproof::verification {

/// The file of zeroproof-plugin, which has no implementation that a library could call, beside the
/// file of this program; for a library with a device (device_type is not 0) in a program that
/// simulates its own, zeroproof-plugin-sim. Errors (ErrorCode::io): /proc does not name this
/// program.
std::string plugin_worker(std::int32_t device_type);

class PluginProcess {
 public:
  /// Starts `worker` as the process of a library. `memory`: descriptor of the shared memory.
  /// device_type: of its device, 0 for none. Errors (ErrorCode::io): there is no such program, or
  /// the system cannot start a process.
  PluginProcess(std::string worker, const std::string& library, int memory,
                const PluginLimits& limits, std::int32_t device_type);
  /// Ends the process and all processes it started.
  ~PluginProcess();
  PluginProcess(const PluginProcess&) = delete;
  PluginProcess& operator=(const PluginProcess&) = delete;

  // All throw CandidateFailure, after which the process is unusable: it crashed, hung, wrote too
  // much output, or the library wrote to the connection.

  /// Errors (ErrorCode::io): the program is that of another build.
  PluginHello hello();
  /// Sets the number of the request.
  PluginReply call(PluginRequest request);
  /// Between two calls: throws if the process has sent an unexpected reply.
  void expect_silence();

 private:
  void expect_greeting();
  [[noreturn]] void answered_for_us(const std::string& during);
  void receive(void* message, std::size_t bytes, const std::string& during);
  void read_output();
  [[noreturn]] void explain_end(const std::string& during);
  std::string last_words() const;
  void kill();

  std::string worker_;
  PluginLimits limits_;
  pid_t pid_ = -1;
  int socket_ = -1, output_ = -1;
  bool over_ = false;
  std::string said_;               // the end of its standard output and error
  std::int64_t output_bytes_ = 0;  // of this call
  std::uint64_t calls_ = 0;
};

}  // namespace zeroproof::verification
