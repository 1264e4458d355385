#pragma once
// A library of somebody else's operations, in a process of its own that is started again whenever it has to be.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "verification/cases/case.hpp"
#include "verification/interfaces/plugin/arena.hpp"
#include "verification/interfaces/plugin/process.hpp"
#include "verification/ops/op_setting.hpp"

namespace zeroproof::verification {

/// One call, whoever makes it.
struct PluginCall {
  std::string operation;
  int num_threads = 1;
  std::vector<PluginOperand> operands;
  std::vector<OpSetting> settings;
  bool in_place = false;  ///< the first operand is the memory of the second
};

class Plugin {
 public:
  /// Loads a library. program: what its process is started from; "" for this program. Errors: ErrorCode::config if
  /// there is no such library, or it is no plug-in of this version.
  Plugin(const std::string& path, const PluginLimits& limits, std::string program = "");

  const std::string& name() const { return name_; }
  bool has(const std::string& operation) const;
  bool has_operations() const { return !operations_.empty(); }
  /// Whether it has an entry for whole steps.
  bool makes_steps() const { return makes_steps_; }

  /// Computes a call: its outputs are then in its operands. From any thread, one after the other. Throws
  /// CandidateFailure for whatever went wrong but the numbers; the next call begins with a new process then.
  void call(const PluginCall& call);

  /// Waits a moment, and looks whether anything was written that belonged to calls which were over. Throws as call().
  void settle();

 private:
  void start();
  PluginHello first_hello();
  PluginRequest request_for(const PluginCall& call);
  void check_reply(const PluginReply& reply, const PluginCall& call);
  [[noreturn]] void give_up(Status status, const std::string& what);

  std::string path_, program_, name_;
  PluginLimits limits_;
  std::vector<std::string> operations_;
  bool makes_steps_ = false;
  std::int32_t device_type_ = 0;  ///< 0: its operands are the host's
  std::mutex one_at_a_time_;
  PluginArena arena_;
  std::unique_ptr<PluginProcess> process_;
};

}  // namespace zeroproof::verification
