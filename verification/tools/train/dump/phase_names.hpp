#pragma once
// Names that another program uses for the tensors of a dump.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "verification/tools/train/dump/dump_plan.hpp"

namespace zeroproof::verification {

class PhaseNames {
 public:
  /// The names of a dump.
  PhaseNames() = default;

  /// From TOML: a buffer's name and the pattern of the other program's names, with {step} and, for
  /// buffers that every parameter has, {name}:
  ///   exp_avg = "state.{step}.{name}.m"
  /// A pattern without {step} names tensors of the last step. Buffers that are not in it have the
  /// names of a dump.
  ///   ignore = ["rng.*"]     patterns with * and ? of tensors that are no numbers of the run
  /// Errors (ErrorCode::config), with file, line and key: no TOML, a buffer that does not exist, a
  /// value that is no text, a pattern without {name}, or with another word in braces.
  static PhaseNames read(const std::string& path, const DumpPlan& plan);

  /// The other program's name of a tensor; nothing if it has no name in this step.
  std::optional<std::string> theirs(const DumpBuffer& buffer, std::int64_t step,
                                    const std::string& parameter, std::int64_t last_step) const;

  bool ignores(const std::string& name) const;

 private:
  std::map<std::string, std::string> patterns_;  // by buffer
  std::vector<std::string> ignored_;
};

}  // namespace zeroproof::verification
