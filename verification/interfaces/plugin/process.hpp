#pragma once
// The process that holds a plug-in, as seen by this one.

#include <sys/types.h>

#include <memory>
#include <string>

#include "verification/interfaces/plugin/confinement.hpp"
#include "verification/interfaces/plugin/wire.hpp"

namespace zeroproof::verification {

class PluginProcess {
 public:
  /// Starts `program` (this one, if "") as the process of a library. `memory`: descriptor of the
  /// shared memory. device_type: of its device, 0 for none. Errors (ErrorCode::io): the system
  /// cannot start a process.
  PluginProcess(const std::string& program, const std::string& library, int memory,
                const PluginLimits& limits, std::int32_t device_type);
  /// Ends the process and all processes it started.
  ~PluginProcess();
  PluginProcess(const PluginProcess&) = delete;
  PluginProcess& operator=(const PluginProcess&) = delete;

  // All throw CandidateFailure, after which the process is unusable: it crashed, hung, wrote too
  // much output, or the library wrote to the connection.
  PluginHello hello();
  /// Sets the number of the request.
  PluginReply call(PluginRequest request);
  /// Between two calls: throws if the process has sent an unexpected reply.
  void expect_silence();

 private:
  [[noreturn]] void answered_for_us(const std::string& during);
  void receive(void* message, std::size_t bytes, const std::string& during);
  void read_output();
  [[noreturn]] void explain_end(const std::string& during);
  std::string last_words() const;
  void kill();

  PluginLimits limits_;
  pid_t pid_ = -1;
  int socket_ = -1, output_ = -1;
  bool over_ = false;
  std::string said_;               // the end of its standard output and error
  std::int64_t output_bytes_ = 0;  // of this call
  std::uint64_t calls_ = 0;
};

}  // namespace zeroproof::verification
