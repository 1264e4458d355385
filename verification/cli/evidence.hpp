#pragma once
// verify --evidence: the declaration, the second run, and the planted faults of each case.

#include "verification/cases/suites/selection.hpp"
#include "verification/cli/case_flags.hpp"
#include "verification/report/evidence.hpp"

namespace zeroproof::verification {

/// Checks before a run that the file can be written and is none of the inputs. Errors:
/// ErrorCode::config; a device or pipe is refused, because the declaration is replaced at the end.
void check_evidence_file(const std::string& file, const CaseFlags& flags);

/// The declaration, before any case runs: not finished, without cases.
DeterminismEvidence declared_evidence(const CaseFlags& flags, const VerifyOptions& options,
                                      const Selection& selection);

/// Results of a case that were not part of the reported run.
struct EvidenceRun {
  std::vector<Result> replayed;                                    ///< of another run of all cases
  std::vector<std::pair<std::string, Sensitivity>> sensitivities;  ///< by id, where measured
};

/// Runs all cases once, and then each with the planted faults that it must catch. Collective over
/// the processes of a job.
EvidenceRun run_for_evidence(const VerifyOptions& options, const Selection& selection,
                             const ProgressSink& progress);

/// Finishes the evidence. A case that passed in `report` and not in the other run gets that result
/// there.
void finish_evidence(DeterminismEvidence& evidence, const EvidenceRun& run, RunReport& report);

}  // namespace zeroproof::verification
