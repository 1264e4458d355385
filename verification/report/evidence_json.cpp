// Evidence as JSON.

#include "common/base/error.hpp"
#include "common/io/json.hpp"
#include "verification/report/evidence.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* evidence_schema = "zeroproof-evidence/1";

/// Of the content in one line; XXH3-128 detects changes, and anyone can compute it.
std::string content_digest(const Json& content) {
  const std::string text = content.dump();
  return to_hex(raw_digest(text.data(), static_cast<std::int64_t>(text.size())));
}

Json source_value(const SourceState& source) {
  return {{"program", source.program},       {"program_digest", source.program_digest},
          {"built_from", source.built_from}, {"tree", source.tree},
          {"sources", source.sources},       {"commit", source.commit},
          {"changed", Json(source.changed)}};
}

SourceState source_from(const Json& json) {
  return {json.at("program"), json.at("program_digest"), json.at("built_from"), json.at("tree"),
          json.at("sources"), json.at("commit"),         json.at("changed")};
}

Json case_value(const CaseEvidence& one) {
  Json ranks = Json::array();
  for (const RankReplay& rank : one.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"class", std::string(1, letter(rank.replay))},
                     {"reason", rank.reason},
                     {"compared", rank.compared},
                     {"digests", Json(rank.digests)}});
  }
  Json sensitivity;
  if (one.sensitivity) {
    sensitivity = Json::object();
    sensitivity["faults"] = one.sensitivity->faults;
    sensitivity["caught"] = one.sensitivity->caught();
    sensitivity["missed"] = Json(one.sensitivity->missed);
  }
  return {{"id", one.id},
          {"replay", std::move(ranks)},
          {"reference",
           {{"verdict", name(one.verdict)}, {"held_to", one.held_to}, {"reason", one.reason}}},
          {"sensitivity", std::move(sensitivity)}};
}

/// Errors: JsonError, no such name.
Status status_named(const std::string& text) {
  for (int i = 0; i < num_statuses; ++i) {
    if (name(static_cast<Status>(i)) == text) return static_cast<Status>(i);
  }
  throw JsonError("'" + text + "' is no verdict");
}

ReplayClass class_named(const std::string& text) {
  for (const ReplayClass replay :
       {ReplayClass::deterministic, ReplayClass::nondeterministic, ReplayClass::unverified}) {
    if (text == std::string(1, letter(replay))) return replay;
  }
  throw JsonError("'" + text + "' is no class of a rank");
}

CaseEvidence case_from(const Json& json) {
  CaseEvidence one;
  one.id = json.at("id");
  for (const Json& rank : json.at("replay")) {
    one.ranks.push_back({rank.at("rank"), class_named(rank.at("class")), rank.at("reason"),
                         rank.at("compared"), rank.at("digests")});
  }
  const Json& reference = json.at("reference");
  one.verdict = status_named(reference.at("verdict"));
  one.held_to = reference.at("held_to");
  one.reason = reference.at("reason");
  const Json& sensitivity = json.at("sensitivity");
  if (sensitivity.is_null()) return one;
  one.sensitivity = {sensitivity.at("faults"), sensitivity.at("missed")};
  return one;
}

Json content_of(const DeterminismEvidence& evidence) {
  Json environment = Json::object();
  for (const auto& [name, detail] : evidence.environment) environment[name] = detail;
  Json inputs = Json::array();
  for (const EvidenceInput& input : evidence.settings.inputs)
    inputs.push_back({{"flag", input.flag}, {"path", input.path}, {"digest", input.digest}});
  Json denominator = Json::array();
  for (const DeclaredCase& one : evidence.denominator)
    denominator.push_back({{"id", one.id}, {"ranks", one.ranks}});
  Json cases = Json::array();
  for (const CaseEvidence& one : evidence.cases) cases.push_back(case_value(one));
  return {{"finished", evidence.finished},
          {"version", evidence.version},
          {"contract", evidence.contract},
          {"source", source_value(evidence.source)},
          {"environment", std::move(environment)},
          {"patterns", Json(evidence.patterns)},
          {"settings", {{"flags", Json(evidence.settings.flags)}, {"inputs", std::move(inputs)}}},
          {"denominator", std::move(denominator)},
          {"cases", std::move(cases)}};
}

DeterminismEvidence evidence_of(const Json& content) {
  DeterminismEvidence evidence;
  evidence.finished = content.at("finished");
  evidence.version = content.at("version");
  evidence.contract = content.at("contract");
  evidence.source = source_from(content.at("source"));
  for (const auto& [name, detail] : content.at("environment").members())
    evidence.environment.emplace_back(name, detail);
  evidence.patterns = content.at("patterns");
  const Json& settings = content.at("settings");
  evidence.settings.flags = settings.at("flags");
  for (const Json& input : settings.at("inputs"))
    evidence.settings.inputs.push_back({input.at("flag"), input.at("path"), input.at("digest")});
  for (const Json& one : content.at("denominator"))
    evidence.denominator.push_back({one.at("id"), one.at("ranks")});
  for (const Json& one : content.at("cases")) evidence.cases.push_back(case_from(one));
  return evidence;
}

}  // namespace

std::string to_json(const DeterminismEvidence& evidence) {
  const Json content = content_of(evidence);
  const Json json = {
      {"schema", evidence_schema}, {"digest", content_digest(content)}, {"evidence", content}};
  return json.dump(1) + "\n";
}

DeterminismEvidence evidence_from_json(const std::string& text, const std::string& file) {
  const char* const hint = "use a file that verify --evidence of this version has written";
  try {
    const Json json = Json::parse(text);
    const std::string schema = json.at("schema");
    ZP_CHECK(schema == evidence_schema, ErrorCode::config, file + " is of schema '" + schema + "'",
             std::string("expected ") + evidence_schema, hint);
    const Json& content = json.at("evidence");
    ZP_CHECK(json.at("digest").get<std::string>() == content_digest(content), ErrorCode::damaged,
             file + " has content with the digest " + content_digest(content) + ", and records " +
                 json.at("digest").get<std::string>(),
             "it was changed after it was written", "run verify --evidence again");
    return evidence_of(content);
  } catch (const JsonError& error) {
    fail(ErrorCode::config, file + " is no evidence: " + error.what(),
         "it is not JSON with every member", hint);
  }
}

}  // namespace zeroproof::verification
