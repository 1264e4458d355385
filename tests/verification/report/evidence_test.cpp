// Evidence: every way in which a case is not verified, found by the validator.

#include "verification/report/evidence.hpp"

#include <doctest.h>

#include <functional>

#include "common/base/error.hpp"

namespace evidence_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

const std::string stage2 =
    "byte_gpt_tiny/adamw/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";
const std::string clip = "op/clip/host/x86-64/fill:ties";

RankResults results(int rank, std::uint64_t digest) { return {rank, 1000 + rank, {digest, 7}}; }

/// A case that passed on this number of ranks.
Result passed(const std::string& id, int ranks) {
  Result result;
  result.id = id;
  result.status = Status::pass;
  for (int rank = 0; rank < ranks; ++rank)
    result.ranks.push_back(results(rank, static_cast<std::uint64_t>(rank) + 1));
  return result;
}

SourceState clean() {
  return {"zeroproof-faults", "00ff", "aaaabbbbccccdddd", "/src", "aaaabbbbccccdddd",
          "0123456789abcdef", {}};
}

CaseEvidence twice(const Result& result) {
  return case_evidence({result.id, static_cast<int>(result.ranks.size())}, &result, &result);
}

DeterminismEvidence sound() {
  DeterminismEvidence evidence;
  evidence.finished = true;
  evidence.version = "1.2.3";
  evidence.contract = 2;
  evidence.source = clean();
  evidence.environment = {{"cpu", "a processor"}};
  evidence.patterns = {"byte_gpt_tiny", "op/clip"};
  evidence.settings = {{"--steps", "4"}, {{"--config", "/a/b.toml", "12ab"}}};
  evidence.denominator = {{stage2, 3}, {clip, 1}};
  evidence.cases = {twice(passed(stage2, 3)), twice(passed(clip, 1))};
  evidence.cases[0].sensitivity = Sensitivity{61, {}};
  return evidence;
}

RequiredEvidence everything() { return {{{stage2, 3}, {clip, 1}}, std::nullopt}; }

EvidenceFindings check(const DeterminismEvidence& evidence,
                       const RequiredEvidence& required = everything(),
                       const SourceState& now = clean()) {
  return check_evidence(evidence, required, "1.2.3", 2, now);
}

/// The validator finds the problem: the exit code, the sentence, and no case verified too much.
void refused(const std::function<void(DeterminismEvidence&)>& change, const std::string& says,
             int code = 4) {
  CAPTURE(says);
  DeterminismEvidence evidence = sound();
  change(evidence);
  const EvidenceFindings findings = check(evidence);
  CHECK(exit_code(findings) == code);
  CHECK(findings.verified() < 2);
  const std::string text = to_text(evidence, findings);
  CAPTURE(text);
  CHECK(text.find("not verified: ") != std::string::npos);
  CHECK(text.find(says) != std::string::npos);
  CHECK(text.find("NOT VERIFIED: ") != std::string::npos);
}

/// Evidence of the second case from other results.
void replace_clip(DeterminismEvidence& evidence, const Result* first, const Result* second) {
  evidence.cases[1] = case_evidence({clip, 1}, first, second);
}

}  // namespace

TEST_CASE("evidence: deterministic ranks, passes and caught faults are verified") {
  const DeterminismEvidence evidence = sound();
  const EvidenceFindings findings = check(evidence);
  CHECK(exit_code(findings) == 0);
  CHECK(findings.verified() == 2);
  const std::string text = to_text(evidence, findings);
  CHECK(text.find(stage2 + "  3 D         pass        61 of 61\n") != std::string::npos);
  CHECK(text.find("1 D         pass        not measured\n") != std::string::npos);
  CHECK(text.find("replay       4 of 4 ranks deterministic\n") != std::string::npos);
  CHECK(text.find("sensitivity  measured in 1 of 2 cases: 61 of 61 faults caught\n") !=
        std::string::npos);
  CHECK(text.find("\nverified: 2 of 2 cases verified\n") != std::string::npos);
}

TEST_CASE("evidence: survives JSON") {
  const DeterminismEvidence read = evidence_from_json(to_json(sound()), "e.json");
  CHECK(to_json(read) == to_json(sound()));
  CHECK(exit_code(check(read)) == 0);
}

TEST_CASE("evidence: a missing, surplus or repeated case is not verified") {
  refused([](DeterminismEvidence& e) { e.cases.pop_back(); },
          "it is declared, and its evidence is missing");
  refused([](DeterminismEvidence& e) { e.cases.push_back(e.cases[1]); },
          "its evidence is there more than once");
  refused([](DeterminismEvidence& e) { e.denominator.pop_back(); },
          "has evidence of " + clip + ", which it does not declare");
  refused([](DeterminismEvidence& e) { e.denominator.push_back(e.denominator[0]); },
          "declares " + stage2 + " more than once");
}

TEST_CASE("evidence: a smaller denominator does not satisfy the required cases") {
  refused(
      [](DeterminismEvidence& e) {
        e.denominator.pop_back();
        e.cases.pop_back();
      },
      clip + ": its run did not declare it");
}

TEST_CASE("evidence: zero cases are not verified") {
  DeterminismEvidence evidence = sound();
  evidence.denominator.clear();
  evidence.cases.clear();
  const EvidenceFindings findings = check(evidence, {});
  CHECK(exit_code(findings) == 4);
  const std::string text = to_text(evidence, findings);
  CHECK(text.find("not verified: it declares no case") != std::string::npos);
  CHECK(text.find("not verified: no case is required") != std::string::npos);
}

TEST_CASE("evidence: a case that was skipped, crashed or hung in a run is not verified") {
  for (const Status status : {Status::skipped, Status::error, Status::crashed, Status::hung}) {
    Result other = passed(clip, 1);
    other.status = status;
    other.reason = "no device";
    const Result good = passed(clip, 1);
    const std::string says = "rank 0 is not verified: " + std::string(name(status)) + ": no device";
    refused([&](DeterminismEvidence& e) { replace_clip(e, &other, &other); }, says);
    refused([&](DeterminismEvidence& e) { replace_clip(e, &good, &other); }, says);
    refused([&](DeterminismEvidence& e) { replace_clip(e, &other, &good); }, says);
  }
  const Result good = passed(clip, 1);
  refused([&](DeterminismEvidence& e) { replace_clip(e, &good, nullptr); },
          "the case was not run twice");
  refused([&](DeterminismEvidence& e) { replace_clip(e, nullptr, nullptr); },
          "the case was not run twice");
}

TEST_CASE("evidence: a dirty tree is not verified, nor one that changed during the run") {
  refused(
      [](DeterminismEvidence& e) {
        e.source.changed = {" M cuda/x.cpp", "?? y.cpp"};
      },
      "the tree is dirty: 2 files changed since commit 0123456789ab, such as ' M cuda/x.cpp'");
}

TEST_CASE("evidence: a program of other sources than its tree is not verified") {
  refused([](DeterminismEvidence& e) { e.source.built_from = "ffff"; },
          "the program was built from other sources than those in /src");
}

TEST_CASE("evidence: a tree without git is not verified") {
  refused(
      [](DeterminismEvidence& e) {
        e.source.commit.clear();
        e.source.sources.clear();
      },
      "the commit is unknown");
}

TEST_CASE("evidence: stale evidence is not verified") {
  SourceState now = clean();
  now.sources = now.built_from = "eeeeffff00001111";
  now.commit = "fedcba9876543210";
  const EvidenceFindings findings = check(sound(), everything(), now);
  CHECK(exit_code(findings) == 4);
  REQUIRE(findings.of_file.size() == 1);
  CHECK(findings.of_file[0] ==
        "it is stale: it was made from the sources aaaabbbbcccc of commit 0123456789ab, and the "
        "sources are now eeeeffff0000");
  now = clean();
  now.commit = "fedcba9876543210";  // a later commit of the same sources
  CHECK(exit_code(check(sound(), everything(), now)) == 0);
  now.sources = "eeee";  // the checkout has changed since the last build
  CHECK(exit_code(check(sound(), everything(), now)) == 4);
  now.tree.clear();  // an installed program: its own sources count
  now.sources.clear();
  CHECK(exit_code(check(sound(), everything(), now)) == 0);
  now.built_from = "eeee";
  CHECK(exit_code(check(sound(), everything(), now)) == 4);
}

TEST_CASE("evidence: without git only the same program counts") {
  DeterminismEvidence evidence = sound();
  evidence.source = {"zeroproof", "00ff", "", "", "", "", {}};
  SourceState now = evidence.source;
  CHECK(exit_code(check(evidence, everything(), now)) == 0);
  now.program_digest = "00fe";
  const EvidenceFindings findings = check(evidence, everything(), now);
  CHECK(exit_code(findings) == 4);
  CHECK(findings.of_file.at(0).find("made by another program") != std::string::npos);
}

TEST_CASE("evidence: another version of the program or of the contract is not verified") {
  refused([](DeterminismEvidence& e) { e.version = "1.2.2"; },
          "made by version 1.2.2, and this is 1.2.3");
  refused([](DeterminismEvidence& e) { e.contract = 1; },
          "it is of contract 1, and this program of 2");
}

TEST_CASE("evidence: an unfinished run is not verified") {
  refused([](DeterminismEvidence& e) { e.finished = false; }, "its run did not finish");
}

TEST_CASE("evidence: a rank whose results differ between the runs is nondeterministic") {
  const Result first = passed(stage2, 3);
  Result second = first;
  second.ranks[1].digest.low ^= 1;
  const CaseEvidence found = case_evidence({stage2, 3}, &first, &second);
  CHECK(found.ranks[0].replay == ReplayClass::deterministic);
  CHECK(found.ranks[1].replay == ReplayClass::nondeterministic);
  CHECK(found.ranks[2].replay == ReplayClass::deterministic);
  refused([&](DeterminismEvidence& e) { e.cases[0] = found; }, "rank 1 is nondeterministic", 1);
}

TEST_CASE("evidence: a class that the digests do not prove is not verified") {
  refused([](DeterminismEvidence& e) { e.cases[0].ranks[2].digests[1] = std::string(32, '0'); },
          "rank 2 claims D, and its runs prove N");
  refused([](DeterminismEvidence& e) { e.cases[0].ranks[2].digests.pop_back(); },
          "rank 2 claims D, and its runs prove U");
  refused([](DeterminismEvidence& e) { e.cases[0].ranks[2].digests.clear(); },
          "rank 2 claims D, and its runs prove U");
}

TEST_CASE("evidence: a rank that compared nothing is not verified") {
  refused([](DeterminismEvidence& e) { e.cases[1].ranks[0].compared = 0; },
          "rank 0 claims D, and its runs prove U");
  Result empty = passed(clip, 1);
  empty.ranks[0].compared = 0;
  refused([&](DeterminismEvidence& e) { replace_clip(e, &empty, &empty); },
          "rank 0 is not verified: nothing was compared");
}

TEST_CASE("evidence: a missing, surplus or repeated rank is not verified") {
  refused([](DeterminismEvidence& e) { e.cases[0].ranks.erase(e.cases[0].ranks.begin() + 1); },
          "rank 1 is missing");
  refused([](DeterminismEvidence& e) { e.cases[0].ranks.push_back(e.cases[0].ranks[0]); },
          "rank 0 is there more than once");
  refused([](DeterminismEvidence& e) { e.cases[0].ranks[2].rank = 3; }, "rank 2 is missing");
  refused(
      [](DeterminismEvidence& e) { e.cases[0].ranks.push_back(replay_of(3, nullptr, nullptr)); },
      "it has 4 ranks, and declares 3");
  refused(
      [](DeterminismEvidence& e) {
        e.denominator[0].ranks = 2;
        e.cases[0].ranks.pop_back();
      },
      "it declares 2 ranks of 3");
  const EvidenceFindings unknown = check(sound(), {{{stage2, 0}, {clip, 1}}, std::nullopt});
  CHECK(exit_code(unknown) == 4);
  CHECK(unknown.of_cases[0].problems.at(0).starts_with("this program has no such case"));
  Result lost = passed(stage2, 3);
  lost.ranks.pop_back();
  const Result whole = passed(stage2, 3);
  refused(
      [&](DeterminismEvidence& e) {
        e.cases[0] = case_evidence({stage2, 3}, &whole, &lost);
      },
      "rank 2 is not verified: a run has no results of it");
}

TEST_CASE("evidence: a case that the reference refutes or mistrusts is not verified") {
  for (const auto& [status, code] : {std::pair{Status::fail, 1}, std::pair{Status::tampered, 1},
                                     std::pair{Status::mistrusted, 4}}) {
    Result other = passed(clip, 1);
    other.status = status;
    other.reason = "because";
    const Result good = passed(clip, 1);
    const std::string says =
        "the verdict of the reference is " + std::string(name(status)) + ": because";
    refused([&](DeterminismEvidence& e) { replace_clip(e, &other, &other); }, says, code);
    refused([&](DeterminismEvidence& e) { replace_clip(e, &good, &other); }, says, code);
    refused([&](DeterminismEvidence& e) { replace_clip(e, &other, &good); }, says, code);
  }
  Result mistrusted = passed(clip, 1), failed_later = passed(clip, 1);
  mistrusted.status = Status::mistrusted;
  failed_later.status = Status::fail;
  refused([&](DeterminismEvidence& e) { replace_clip(e, &mistrusted, &failed_later); },
          "the verdict of the reference is fail", 1);
}

TEST_CASE("evidence: a comparison that misses planted faults is not verified") {
  refused(
      [](DeterminismEvidence& e) {
        e.cases[0].sensitivity = Sensitivity{2, {"a", "b"}};
      },
      "the comparison caught 0 of 2 faults; missed: a, b");
  refused(
      [](DeterminismEvidence& e) {
        e.cases[0].sensitivity = Sensitivity{61, {"a"}};
      },
      "the comparison caught 60 of 61 faults; missed: a");
  refused(
      [](DeterminismEvidence& e) {
        e.cases[0].sensitivity = Sensitivity{0, {}};
      },
      "its sensitivity counts no faults");
}

TEST_CASE("evidence: required settings and inputs have to be those of the run") {
  RequiredEvidence required = everything();
  required.settings = sound().settings;
  CHECK(exit_code(check(sound(), required)) == 0);
  required.settings->inputs[0].path = "/elsewhere/b.toml";  // the same content
  CHECK(exit_code(check(sound(), required)) == 0);
  required.settings->inputs[0].digest = "12ac";
  CHECK(exit_code(check(sound(), required)) == 4);
  required.settings = sound().settings;
  required.settings->flags[1] = "5";
  CHECK(exit_code(check(sound(), required)) == 4);
  required.settings = EvidenceSettings{};
  const EvidenceFindings findings = check(sound(), required);
  CHECK(exit_code(findings) == 4);
  CHECK(findings.of_file.at(0) ==
        "it was made with '--steps 4 --config 12ab', not with the default settings");
}

TEST_CASE("evidence: changed files are damaged, others are no evidence") {
  const std::string good = to_json(sound());
  const auto code_of = [](const std::string& text) {
    try {
      evidence_from_json(text, "e.json");
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  CHECK(code_of(changed("\"digest\": \"", "\"digest\": \"0")) == ErrorCode::damaged);
  CHECK(code_of(changed("0000000000000001", "0000000000000003")) == ErrorCode::damaged);
  CHECK(code_of(changed("\"ranks\": 3", "\"ranks\": 2")) == ErrorCode::damaged);
  CHECK(code_of(changed("\"finished\": true", "\"finished\": false")) == ErrorCode::damaged);
  CHECK(code_of(changed("fill:ties", "fill:wide")) == ErrorCode::damaged);
  CHECK(code_of(changed("zeroproof-evidence/1", "zeroproof-evidence/0")) == ErrorCode::config);
  CHECK(code_of(changed("\"evidence\": {", "\"evidences\": {")) == ErrorCode::config);
  CHECK(code_of(good.substr(0, good.size() / 2)) == ErrorCode::config);
  CHECK(code_of("") == ErrorCode::config);
  CHECK(code_of("[]") == ErrorCode::config);
}

}  // namespace evidence_test
