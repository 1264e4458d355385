#pragma once
// Evidence of a run: the class of every rank of the declared cases (deterministic or not), the
// verdicts of the reference, and the planted faults that the comparison of each case catches. None
// of the three is derived from another. verification/cli/README.md has the rules.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "verification/cases/result.hpp"
#include "verification/cases/sensitivity.hpp"
#include "verification/report/source_state.hpp"

namespace zeroproof::verification {

/// Two runs of a case on one rank.
enum class ReplayClass : std::uint8_t { deterministic, nondeterministic, unverified };
char letter(ReplayClass replay);  ///< D, N, U

struct RankReplay {
  int rank = 0;
  ReplayClass replay = ReplayClass::unverified;
  std::string reason;                ///< of U
  std::int64_t compared = 0;         ///< elements, of the first run
  std::vector<std::string> digests;  ///< of the results of each run that has any
};

struct DeclaredCase {
  std::string id;
  int ranks = 1;
};

struct CaseEvidence {
  std::string id;
  std::vector<RankReplay> ranks;
  Status verdict =
      Status::skipped;  ///< of the comparison with the reference, the worse one of both runs
  std::string held_to;  ///< Result::held_to
  std::string reason;   ///< of a verdict other than pass
  std::optional<Sensitivity> sensitivity;  ///< nullopt: not measured
};

/// An input file named by a flag.
struct EvidenceInput {
  std::string flag, path, digest;

  bool same_content(const EvidenceInput& other) const {
    return flag == other.flag && digest == other.digest;
  }
};

/// Settings that determine results and are no part of an id.
struct EvidenceSettings {
  std::vector<std::string> flags;  ///< flag, value, flag, value, ...; without files
  std::vector<EvidenceInput> inputs;
};

struct DeterminismEvidence {
  bool finished = false;  ///< false from the declaration until all cases have ended
  std::string version;
  std::int64_t contract = 0;
  SourceState source;
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> patterns;  ///< that selected the denominator; none: the default cases
  EvidenceSettings settings;
  std::vector<DeclaredCase> denominator;
  std::vector<CaseEvidence> cases;
};

/// The class of a rank from the results of both runs; null: a run has none of this rank.
RankReplay replay_of(int rank, const RankResults* first, const RankResults* second);

/// Evidence of a case from its two results; null: a run has none.
CaseEvidence case_evidence(const DeclaredCase& declared, const Result* first, const Result* second);

/// Schema "zeroproof-evidence/1" (report/evidence.schema.json), with a digest of its content.
std::string to_json(const DeterminismEvidence& evidence);

/// Evidence written by to_json. `file` is its name in messages. Errors: config, it is no evidence of
/// this schema; damaged, its content differs from its digest.
DeterminismEvidence evidence_from_json(const std::string& text, const std::string& file);

/// Cases that have to be verified, and settings unless they are those of the evidence.
struct RequiredEvidence {
  std::vector<DeclaredCase>
      cases;  ///< with the ranks that they have in this program, 0: no such case
  std::optional<EvidenceSettings> settings;
};

struct EvidenceFindings {
  std::vector<std::string> of_file;  ///< reasons for which no case of the file is verified
  struct OfCase {
    DeclaredCase required;
    const CaseEvidence* evidence = nullptr;  ///< null if missing
    std::vector<std::string> problems;       ///< none: the case is verified
    bool refuted = false;  ///< a rank is nondeterministic, or the reference differs
  };
  std::vector<OfCase> of_cases;

  std::int64_t verified() const;
};

/// Checks evidence, which outlives the findings, against this program and its sources: every
/// required case has to be declared, present, deterministic on each of its ranks and equal to the
/// reference, and the comparison must miss none of the faults it was tested with.
EvidenceFindings check_evidence(const DeterminismEvidence& evidence,
                                const RequiredEvidence& required, const std::string& version,
                                std::int64_t contract, const SourceState& now);

/// 0 if every case is verified; 1 if the evidence counts and refutes a case; else 4.
int exit_code(const EvidenceFindings& findings);

/// The table for the terminal.
std::string to_text(const DeterminismEvidence& evidence, const EvidenceFindings& findings);

}  // namespace zeroproof::verification
