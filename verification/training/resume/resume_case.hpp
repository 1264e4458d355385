#pragma once
// Ids of runs that are saved, ended and resumed on other ranks:
// "resume/adamw/3:2-to-1x1x2:1/fp16/contract-to-fsdp2/after:4" is recipe, ranks and stage before
// and after, dtype, layouts before and after, and the step that the checkpoint is of. An
// implementation other than the host's follows the stage (3:2:device-graph-to-2:1), and the number
// of steps, if it is not the configured one, the step (after:1028-of-1034).

#include <string>
#include <vector>

#include "verification/cases/case.hpp"

namespace zeroproof::verification {

struct ResumeCaseSpec {
  /// Ranks of one half of the run: threads, as many as the grid has.
  struct Half {
    ProcessGrid grid;
    int stage = 0;
    LayoutKind layout = LayoutKind::contract;
    Implementation implementation = Implementation::host;
  };
  std::string recipe = "adamw";
  Half before, after;
  DType dtype = DType::fp16;
  std::int64_t last_saved = 3;  ///< steps before the checkpoint, 1 or more
  std::int64_t steps = 0;       ///< of both halves; 0: as configured

  std::string id() const;

  /// As a training case of byte_gpt_tiny on the ranks of one half.
  CaseSpec half(const Half& ranks) const;
};

/// The cases a pattern selects among the usual ones: every recipe once, from and to ranks that
/// differ from case to case, and with a device several on it. A complete id selects its case
/// anywhere. Errors (ErrorCode::config): a complete id with a part that does not exist.
std::vector<ResumeCaseSpec> resume_cases(const std::string& pattern);

}  // namespace zeroproof::verification
