#include "verification/json_types.hpp"

#include "common/base/error.hpp"

namespace zeroproof::verification {
namespace {

template <class Enum, class Names>
Enum from_name(const std::string& text, const Names& all) {
  for (const Enum value : all) {
    if (name(value) == text) return value;
  }
  fail(ErrorCode::io, "a report names '" + text + "'", "this version does not know it",
       "use a report of the same version");
}

std::vector<BufferId> all_buffers() {
  std::vector<BufferId> all;
  for (int i = 0; i < num_buffer_ids; ++i) all.push_back(static_cast<BufferId>(i));
  return all;
}

std::vector<Status> all_statuses() {
  std::vector<Status> all;
  for (int i = 0; i < num_statuses; ++i) all.push_back(static_cast<Status>(i));
  return all;
}

Json hash_or_null(const std::optional<Digest>& digest) {
  return digest ? Json(to_hex(*digest)) : Json(nullptr);
}

std::optional<Digest> hash_from(const Json& json) {
  if (json.is_null()) return std::nullopt;
  const auto hex = json.get<std::string>();
  ZP_CHECK(hex.size() == 32, ErrorCode::io, "a report has the hash '" + hex + "'", "hashes have 32 digits",
           "use a report written by this program");
  return Digest{std::stoull(hex.substr(0, 16), nullptr, 16), std::stoull(hex.substr(16), nullptr, 16)};
}

PhaseTally tally_from(const Json& json) {
  return {from_name<Phase>(json.at("phase"), all_phases),
          from_name<BufferId>(json.at("buffer"), all_buffers()), json.at("against"), json.at("compared"),
          json.at("differing")};
}

Divergence divergence_from(const Json& json) {
  Divergence d;
  d.step = json.at("step");
  d.phase.reset();
  if (!json.at("phase").is_null()) d.phase = from_name<Phase>(json.at("phase"), all_phases);
  d.rank = json.at("rank");
  d.buffer = json.at("buffer");
  d.what = json.at("what");
  d.shard_index = json.at("shard_index");
  d.global_index = json.at("global_index");
  d.last_global_index = json.at("last_global_index");
  d.parameter = json.at("parameter");
  d.coordinates = json.at("coordinates");
  d.reference_value = json.at("reference");
  d.candidate_value = json.at("candidate");
  d.differing = json.at("differing");
  d.compared = json.at("compared");
  return d;
}

Json timing_value(const StepTiming& timing) {
  return {{"reference_seconds", timing.reference_seconds},
          {"candidate_seconds", timing.candidate_seconds},
          {"reference_bytes_per_step", timing.reference_bytes},
          {"candidate_bytes_per_step", timing.candidate_bytes},
          {"steps", timing.steps}};
}

StepTiming timing_from(const Json& json) {
  return {json.at("reference_seconds"), json.at("candidate_seconds"), json.at("reference_bytes_per_step"),
          json.at("candidate_bytes_per_step"), json.at("steps")};
}

Json divergence_or_null(const std::optional<Divergence>& d) { return d ? to_json_value(*d) : Json(nullptr); }

}  // namespace

Json to_json_value(const PhaseTally& tally) {
  return {{"phase", name(tally.phase)},   {"buffer", name(tally.buffer)},
          {"against", tally.against},     {"compared", tally.compared},
          {"differing", tally.differing}, {"class", exactness_class(tally.buffer)}};
}

Json to_json_value(const Divergence& d) {
  return {{"step", d.step},
          {"phase", d.phase ? Json(name(*d.phase)) : Json(nullptr)},
          {"rank", d.rank},
          {"buffer", d.buffer},
          {"what", d.what},
          {"shard_index", d.shard_index},
          {"global_index", d.global_index},
          {"last_global_index", d.last_global_index},
          {"parameter", d.parameter},
          {"coordinates", d.coordinates},
          {"reference", d.reference_value},
          {"candidate", d.candidate_value},
          {"differing", d.differing},
          {"compared", d.compared}};
}

Json to_json_value(const CaseResult& r) {
  Json json = {{"id", r.spec.id()},
               {"recipe", r.spec.recipe},
               {"twin", name(r.spec.twin)},
               {"world", r.spec.world.id()},
               {"stage", r.spec.stage},
               {"dtype", name(r.spec.dtype)},
               {"mode", r.spec.mode == Mode::lockstep ? "lockstep" : "free"},
               {"status", name(r.status)},
               {"reason", r.reason},
               {"replay", r.replay},
               {"trajectory_hash", hash_or_null(r.candidate_hash)},
               {"reference_trajectory_hash", hash_or_null(r.reference_hash)},
               {"phases", Json::array()},
               {"divergence", divergence_or_null(r.divergence)},
               {"steps", r.steps},
               {"skipped_steps", r.skipped_steps},
               {"clipped_steps", r.clipped_steps},
               {"growths", r.growths},
               {"moved_elements", r.moved_elements},
               {"timing", timing_value(r.timing)}};
  if (r.status == Status::skipped) return json;
  for (const PhaseTally& tally : r.tallies) json["phases"].push_back(to_json_value(tally));
  return json;
}

CaseResult case_result_from(const Json& json) {
  CaseResult r;
  const auto spec = parse_case_id(json.at("id"));
  ZP_CHECK(spec.has_value(), ErrorCode::io,
           "a report has the case id '" + json.at("id").get<std::string>() + "'", "it is not complete",
           "use a report written by this program");
  r.spec = *spec;
  r.status = from_name<Status>(json.at("status"), all_statuses());
  r.reason = json.at("reason");
  r.replay = json.at("replay");
  r.candidate_hash = hash_from(json.at("trajectory_hash"));
  r.reference_hash = hash_from(json.at("reference_trajectory_hash"));
  for (const Json& tally : json.at("phases")) r.tallies.push_back(tally_from(tally));
  if (!json.at("divergence").is_null()) r.divergence = divergence_from(json.at("divergence"));
  r.steps = json.at("steps");
  r.skipped_steps = json.at("skipped_steps");
  r.clipped_steps = json.at("clipped_steps");
  r.growths = json.at("growths");
  r.moved_elements = json.at("moved_elements");
  r.timing = timing_from(json.at("timing"));
  return r;
}

Json to_json_value(const RankReport& r) {
  Json json = {{"divergence", divergence_or_null(r.divergence)},
               {"timing", timing_value(r.timing)},
               {"reference_hash", to_hex(r.reference_hash)},
               {"candidate_hash", to_hex(r.candidate_hash)},
               {"skipped_steps", r.skipped_steps},
               {"clipped_steps", r.clipped_steps},
               {"growths", r.growths},
               {"moved_elements", r.moved_elements},
               {"tallies", Json::array()}};
  for (const PhaseTally& tally : r.tallies) json["tallies"].push_back(to_json_value(tally));
  return json;
}

RankReport rank_report_from(const Json& json) {
  RankReport r;
  for (const Json& tally : json.at("tallies")) r.tallies.push_back(tally_from(tally));
  if (!json.at("divergence").is_null()) r.divergence = divergence_from(json.at("divergence"));
  r.timing = timing_from(json.at("timing"));
  r.reference_hash = *hash_from(json.at("reference_hash"));
  r.candidate_hash = *hash_from(json.at("candidate_hash"));
  r.skipped_steps = json.at("skipped_steps");
  r.clipped_steps = json.at("clipped_steps");
  r.growths = json.at("growths");
  r.moved_elements = json.at("moved_elements");
  return r;
}

}  // namespace zeroproof::verification
