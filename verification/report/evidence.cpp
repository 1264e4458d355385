#include "verification/report/evidence.hpp"

#include <algorithm>

namespace zeroproof::verification {
namespace {

bool was_judged(Status status) { return status < Status::skipped; }

bool refutes(Status status) { return status == Status::fail || status == Status::tampered; }

const RankResults* results_of(const Result* result, int rank) {
  if (result == nullptr) return nullptr;
  const auto found = std::ranges::find(result->ranks, rank, &RankResults::rank);
  return found == result->ranks.end() ? nullptr : &*found;
}

/// Why a run of a case says nothing about its ranks; "" if it does.
std::string unjudged(const Result* result) {
  if (result == nullptr) return "the case was not run twice";
  if (was_judged(result->status)) return "";
  return std::string(name(result->status)) + ": " + result->reason;
}

/// The class that the digests of a rank prove.
ReplayClass proved(const RankReplay& rank) {
  if (rank.digests.size() != 2 || rank.compared <= 0) return ReplayClass::unverified;
  return rank.digests[0] == rank.digests[1] ? ReplayClass::deterministic
                                            : ReplayClass::nondeterministic;
}

std::string listed_names(const std::vector<std::string>& names) {
  constexpr std::size_t most = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (i > 0 ? ", " : "") + names[i];
  return names.size() > most ? text + ", ..." : text;
}

/// Results of this evidence describe other sources or another program than those of now; "" if they
/// do not.
std::string staleness(const DeterminismEvidence& evidence, const std::string& version,
                      std::int64_t contract, const SourceState& now) {
  if (evidence.version != version)
    return "it was made by version " + evidence.version + ", and this is " + version;
  if (evidence.contract != contract)
    return "it is of contract " + std::to_string(evidence.contract) + ", and this program of " +
           std::to_string(contract);
  const SourceState& then = evidence.source;
  if (then.built_from.empty() || now.current().empty()) {
    return then.program_digest == now.program_digest
               ? ""
               : "it was made by another program, and without git the sources are unknown";
  }
  if (then.built_from == now.current()) return "";
  const std::string commit = then.commit.empty() ? "" : " of commit " + then.commit.substr(0, 12);
  return "it is stale: it was made from the sources " + then.built_from.substr(0, 12) + commit +
         ", and the sources are now " + now.current().substr(0, 12);
}

void check_rank(const RankReplay& rank, EvidenceFindings::OfCase& found) {
  const std::string who = "rank " + std::to_string(rank.rank);
  if (rank.replay == ReplayClass::unverified) {
    found.problems.push_back(who + " is not verified: " + rank.reason);
  } else if (proved(rank) != rank.replay) {
    found.problems.push_back(who + " claims " + letter(rank.replay) + ", and its runs prove " +
                             letter(proved(rank)));
  } else if (rank.replay == ReplayClass::nondeterministic) {
    found.refuted = true;
    found.problems.push_back(who + " is nondeterministic: its runs have the digests " +
                             rank.digests[0] + " and " + rank.digests[1]);
  }
}

void check_ranks(const CaseEvidence& evidence, EvidenceFindings::OfCase& found) {
  for (int rank = 0; rank < found.required.ranks; ++rank) {
    const auto same = [&](const RankReplay& one) { return one.rank == rank; };
    const auto count = std::ranges::count_if(evidence.ranks, same);
    if (count == 1) {
      check_rank(*std::ranges::find_if(evidence.ranks, same), found);
    } else {
      found.problems.push_back("rank " + std::to_string(rank) + " is " +
                               (count == 0 ? "missing" : "there more than once"));
    }
  }
  if (evidence.ranks.size() > static_cast<std::size_t>(std::max(0, found.required.ranks)))
    found.problems.push_back("it has " + std::to_string(evidence.ranks.size()) +
                             " ranks, and declares " + std::to_string(found.required.ranks));
}

void check_verdict(const CaseEvidence& evidence, EvidenceFindings::OfCase& found) {
  if (evidence.verdict == Status::pass) return;
  found.refuted |= refutes(evidence.verdict);
  found.problems.push_back("the verdict of the reference is " +
                           std::string(name(evidence.verdict)) + ": " + evidence.reason);
}

void check_sensitivity(const CaseEvidence& evidence, EvidenceFindings::OfCase& found) {
  if (!evidence.sensitivity) return;
  const Sensitivity& measured = *evidence.sensitivity;
  const auto missed = static_cast<std::int64_t>(measured.missed.size());
  if (measured.faults < 1 || missed > measured.faults) {
    found.problems.emplace_back("its sensitivity counts no faults");
  } else if (missed > 0) {
    found.problems.push_back("the comparison caught " + std::to_string(measured.caught()) + " of " +
                             std::to_string(measured.faults) +
                             " faults; missed: " + listed_names(measured.missed));
  }
}

const DeclaredCase* declaration_of(const DeterminismEvidence& evidence, const std::string& id) {
  const auto found = std::ranges::find(evidence.denominator, id, &DeclaredCase::id);
  return found == evidence.denominator.end() ? nullptr : &*found;
}

EvidenceFindings::OfCase check_case(const DeterminismEvidence& evidence,
                                    const DeclaredCase& required) {
  EvidenceFindings::OfCase found{required, nullptr, {}};
  const DeclaredCase* const declared = declaration_of(evidence, required.id);
  if (declared == nullptr) {
    found.problems.emplace_back("its run did not declare it");
    return found;
  }
  if (required.ranks < 1) {
    found.problems.emplace_back(
        "this program has no such case without the patterns and flags of its run");
    return found;
  }
  if (declared->ranks != required.ranks) {
    found.problems.push_back("it declares " + std::to_string(declared->ranks) + " ranks of " +
                             std::to_string(required.ranks));
  }
  const auto same = [&](const CaseEvidence& one) { return one.id == required.id; };
  const auto count = std::ranges::count_if(evidence.cases, same);
  if (count != 1) {
    found.problems.emplace_back(count == 0 ? "it is declared, and its evidence is missing"
                                           : "its evidence is there more than once");
    return found;
  }
  found.evidence = &*std::ranges::find_if(evidence.cases, same);
  check_ranks(*found.evidence, found);
  check_verdict(*found.evidence, found);
  check_sensitivity(*found.evidence, found);
  return found;
}

std::string difference_of(const EvidenceSettings& there, const EvidenceSettings& wanted) {
  const auto shown = [](const EvidenceSettings& settings) {
    std::string text;
    for (const std::string& word : settings.flags) text += (text.empty() ? "" : " ") + word;
    for (const EvidenceInput& input : settings.inputs)
      text += (text.empty() ? "" : " ") + input.flag + " " + input.digest;
    return text.empty() ? std::string("the default settings") : "'" + text + "'";
  };
  const bool same =
      there.flags == wanted.flags &&
      std::ranges::equal(there.inputs, wanted.inputs,
                         [](const auto& a, const auto& b) { return a.same_content(b); });
  return same ? "" : "it was made with " + shown(there) + ", not with " + shown(wanted);
}

/// "3 D", "2 D, 1 U".
std::string classes_text(const CaseEvidence& evidence) {
  std::string text;
  for (const ReplayClass replay :
       {ReplayClass::deterministic, ReplayClass::nondeterministic, ReplayClass::unverified}) {
    const auto count = std::ranges::count(evidence.ranks, replay, &RankReplay::replay);
    if (count > 0)
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + letter(replay);
  }
  return text.empty() ? "no rank" : text;
}

std::string sensitivity_text(const std::optional<Sensitivity>& sensitivity) {
  if (!sensitivity) return "not measured";
  return std::to_string(sensitivity->caught()) + " of " + std::to_string(sensitivity->faults);
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

}  // namespace

char letter(ReplayClass replay) {
  if (replay == ReplayClass::deterministic) return 'D';
  return replay == ReplayClass::nondeterministic ? 'N' : 'U';
}

RankReplay replay_of(int rank, const RankResults* first, const RankResults* second) {
  RankReplay replay;
  replay.rank = rank;
  for (const RankResults* run : {first, second}) {
    if (run != nullptr) replay.digests.push_back(to_hex(run->digest));
  }
  if (first != nullptr) replay.compared = first->compared;
  replay.replay = proved(replay);
  if (replay.replay == ReplayClass::unverified)
    replay.reason =
        replay.digests.size() < 2 ? "a run has no results of it" : "nothing was compared";
  return replay;
}

CaseEvidence case_evidence(const DeclaredCase& declared, const Result* first,
                           const Result* second) {
  CaseEvidence evidence;
  evidence.id = declared.id;
  const std::string first_problem = unjudged(first), second_problem = unjudged(second);
  const std::string problem = first_problem.empty() ? second_problem : first_problem;
  for (int rank = 0; rank < declared.ranks; ++rank) {
    evidence.ranks.push_back(replay_of(rank, results_of(first, rank), results_of(second, rank)));
    if (problem.empty()) continue;
    evidence.ranks.back().replay = ReplayClass::unverified;
    evidence.ranks.back().reason = problem;
  }
  const Result* worse = first;
  const bool open = first == nullptr || first->status == Status::pass;
  if (second != nullptr && (open || refutes(second->status))) worse = second;
  if (worse != nullptr) {
    evidence.verdict = worse->status;
    evidence.held_to = worse->held_to;
    evidence.reason = worse->reason;
  }
  return evidence;
}

std::int64_t EvidenceFindings::verified() const {
  if (!of_file.empty()) return 0;
  return std::ranges::count_if(of_cases, [](const OfCase& one) { return one.problems.empty(); });
}

EvidenceFindings check_evidence(const DeterminismEvidence& evidence,
                                const RequiredEvidence& required, const std::string& version,
                                std::int64_t contract, const SourceState& now) {
  EvidenceFindings findings;
  const auto add = [&](const std::string& problem) {
    if (!problem.empty()) findings.of_file.push_back(problem);
  };
  if (!evidence.finished) add("its run did not finish");
  add(source_problem(evidence.source));
  add(staleness(evidence, version, contract, now));
  if (required.settings) add(difference_of(evidence.settings, *required.settings));
  if (evidence.denominator.empty()) add("it declares no case");
  if (required.cases.empty()) add("no case is required");
  for (const CaseEvidence& one : evidence.cases) {
    if (declaration_of(evidence, one.id) == nullptr)
      add("it has evidence of " + one.id + ", which it does not declare");
  }
  for (const DeclaredCase& one : evidence.denominator) {
    if (std::ranges::count(evidence.denominator, one.id, &DeclaredCase::id) > 1)
      add("it declares " + one.id + " more than once");
  }
  for (const DeclaredCase& one : required.cases)
    findings.of_cases.push_back(check_case(evidence, one));
  return findings;
}

int exit_code(const EvidenceFindings& findings) {
  if (!findings.of_file.empty()) return 4;
  if (std::ranges::any_of(findings.of_cases, &EvidenceFindings::OfCase::refuted)) return 1;
  return findings.verified() == static_cast<std::int64_t>(findings.of_cases.size()) ? 0 : 4;
}

std::string to_text(const DeterminismEvidence& evidence, const EvidenceFindings& findings) {
  const SourceState& source = evidence.source;
  std::string text =
      "program      " + source.program + " " + evidence.version + ", contract " +
      std::to_string(evidence.contract) + ", sources " +
      (source.built_from.empty() ? "unknown" : source.built_from.substr(0, 12)) + ", " +
      (source.commit.empty() ? "no commit" : "commit " + source.commit.substr(0, 12)) + "\n";
  for (const auto& [name, detail] : evidence.environment)
    text += padded(name, 20) + " " + detail + "\n";
  if (!evidence.settings.flags.empty()) {
    text += padded("settings", 12);
    for (const std::string& word : evidence.settings.flags) text += " " + word;
    text += "\n";
  }
  std::size_t width = 4;
  for (const auto& one : findings.of_cases) width = std::max(width, one.required.id.size());
  text += "\n" + padded("case", width) + "  ranks       reference   faults caught\n";
  std::int64_t ranks = 0, deterministic = 0, equal = 0, faults = 0, caught = 0, measured = 0;
  for (const auto& one : findings.of_cases) {
    text += padded(one.required.id, width) + "  ";
    if (one.evidence == nullptr) {
      text += "no evidence\n";
      continue;
    }
    const CaseEvidence& found = *one.evidence;
    text += padded(classes_text(found), 10) + "  " + padded(std::string(name(found.verdict)), 10) +
            "  " + sensitivity_text(found.sensitivity) + "\n";
    ranks += static_cast<std::int64_t>(found.ranks.size());
    deterministic +=
        std::ranges::count(found.ranks, ReplayClass::deterministic, &RankReplay::replay);
    equal += found.verdict == Status::pass ? 1 : 0;
    if (!found.sensitivity) continue;
    ++measured;
    faults += found.sensitivity->faults;
    caught += found.sensitivity->caught();
  }
  const auto total = static_cast<std::int64_t>(findings.of_cases.size());
  const auto part = [](std::int64_t count, std::int64_t of) {
    return std::to_string(count) + " of " + std::to_string(of);
  };
  text += "\nreplay       " + part(deterministic, ranks) + " ranks deterministic\n" +
          "reference    " + part(equal, total) + " cases pass\n" + "sensitivity  measured in " +
          part(measured, total) + " cases: " + part(caught, faults) + " faults caught\n";
  for (const std::string& problem : findings.of_file) text += "not verified: " + problem + "\n";
  for (const auto& one : findings.of_cases) {
    for (const std::string& problem : one.problems)
      text += "not verified: " + one.required.id + ": " + problem + "\n";
  }
  return text + (exit_code(findings) == 0 ? "verified: " : "NOT VERIFIED: ") +
         part(findings.verified(), total) + " cases verified\n";
}

}  // namespace zeroproof::verification
