#pragma once

#include <string>
#include <string_view>

#include "common/base/span.hpp"
#include "verification/cli/command_set.hpp"

namespace zeroproof::verification {

/// Each adds one subcommand.
void add_verify(CommandSet& commands);
void add_list(CommandSet& commands);
void add_record(CommandSet& commands);
void add_diff(CommandSet& commands);
void add_golden(CommandSet& commands);
void add_doctor(CommandSet& commands);
void add_faults(CommandSet& commands);
void add_reveal(CommandSet& commands);
void add_explain(CommandSet& commands);
void add_replay(CommandSet& commands);
void add_evidence(CommandSet& commands);
void add_plan(CommandSet& commands);
void add_trace(CommandSet& commands);
void add_identify(CommandSet& commands);
void add_attribute(CommandSet& commands);
void add_gen(CommandSet& commands);
void add_judge(CommandSet& commands);
void add_judge_run(CommandSet& commands);
void add_train(CommandSet& commands);
void add_checkpoint(CommandSet& commands);
void add_audit(CommandSet& commands);
void add_quantization(CommandSet& commands);
void add_quantize(CommandSet& commands);

/// "adamw, adam, sgd, ...": the names of a choice, for the text of a flag.
inline std::string listed(Span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

/// "zeroproof 0.2.0, numeric contract 2".
std::string version_text();

}  // namespace zeroproof::verification
