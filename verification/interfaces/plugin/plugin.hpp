#pragma once
// A library of user operations, in a separate process that is restarted when necessary.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "verification/cases/case.hpp"
#include "verification/interfaces/plugin/arena.hpp"
#include "verification/interfaces/plugin/process.hpp"
#include "verification/ops/op_setting.hpp"

namespace zeroproof::verification {

/// One call, from any caller.
struct PluginCall {
  std::string operation;
  int num_threads = 1;
  std::vector<PluginOperand> operands;
  std::vector<OpSetting> settings;
  bool in_place = false;  ///< the first operand is the memory of the second
};

class Plugin {
 public:
  /// Loads a library. worker: the program of its process; "" for plugin_worker(). Errors:
  /// ErrorCode::config if there is no such library, or it is not a plug-in of this version;
  /// ErrorCode::io if the program is missing, or that of another build.
  Plugin(const std::string& path, const PluginLimits& limits, std::string worker = "");

  const std::string& name() const { return name_; }
  bool has(const std::string& operation) const;
  bool has_operations() const { return !operations_.empty(); }
  /// True if it has an entry for whole steps.
  bool makes_steps() const { return makes_steps_; }

  /// Computes a call: its outputs are then in its operands. From any thread, one call at a time.
  /// Throws CandidateFailure for every failure except wrong numbers; the next call then starts a
  /// new process.
  void call(const PluginCall& call);

  /// Waits briefly, and checks whether memory of finished calls was written. Throws as call().
  void settle();

  /// Ends its process; the next call starts another one.
  void end();

 private:
  void start();
  std::unique_ptr<PluginProcess> new_process() const;
  PluginHello first_hello();
  PluginRequest request_for(const PluginCall& call);
  void check_reply(const PluginReply& reply, const PluginCall& call);
  [[noreturn]] void give_up(Status status, const std::string& what);

  std::string path_, worker_, name_;
  PluginLimits limits_;
  std::vector<std::string> operations_;
  bool makes_steps_ = false;
  std::int32_t device_type_ = 0;  ///< 0: operands in host memory
  std::mutex one_at_a_time_;
  PluginArena arena_;
  std::unique_ptr<PluginProcess> process_;
};

}  // namespace zeroproof::verification
