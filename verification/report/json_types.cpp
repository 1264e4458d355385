#include "verification/report/json_types.hpp"

#include <chrono>
#include <cmath>
#include <limits>

#include "common/base/error.hpp"
#include "verification/report/json_bytes.hpp"

namespace zeroproof::verification {
namespace {

template <class Enum, class Names>
Enum from_name(const std::string& text, const Names& all) {
  for (const Enum value : all) {
    if (name(value) == text) return value;
  }
  fail(ErrorCode::io, "a report has the name '" + text + "'", "this version does not have it",
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
  ZP_CHECK(hex.size() == 32, ErrorCode::io, "a report has the hash '" + hex + "'",
           "hashes have 32 digits", "use a report written by this program");
  return Digest{std::stoull(hex.substr(0, 16), nullptr, 16),
                std::stoull(hex.substr(16), nullptr, 16)};
}

PhaseTally tally_from(const Json& json) {
  return {from_name<Phase>(json.at("phase"), all_phases),
          from_name<BufferId>(json.at("buffer"), all_buffers()), json.at("against"),
          json.at("compared"), json.at("differing")};
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
  d.word = json.at("word");
  d.reference_value = json.at("reference");
  d.candidate_value = json.at("candidate");
  d.differing = json.at("differing");
  d.compared = json.at("compared");
  d.call = json.at("call");
  d.hint = json.at("hint");
  d.order = json.at("order");
  d.exact_value = json.value("exact", "");
  if (json.contains("message") && !json.at("message").is_null()) {
    const Json& m = json.at("message");
    d.message = {m.at("group"), m.at("collective"), m.at("number"), m.at("from"), m.at("to"),
                 m.at("bytes"), m.at("differing"),  m.at("first"),  m.at("sent"), m.at("received")};
  }
  for (const auto& [name, value] : json.at("inputs").members()) d.inputs.emplace_back(name, value);
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
  return {json.at("reference_seconds"), json.at("candidate_seconds"),
          json.at("reference_bytes_per_step"), json.at("candidate_bytes_per_step"),
          json.at("steps")};
}

Json divergence_or_null(const std::optional<Divergence>& d) {
  return d ? to_json_value(*d) : Json(nullptr);
}

Json message_value(const BrokenMessage& m) {
  return {{"group", m.group},
          {"collective", m.collective},
          {"number", m.number},
          {"from", m.from},
          {"to", m.to},
          {"bytes", m.num_bytes},
          {"differing", m.differing},
          {"first", m.first},
          {"sent", m.sent},
          {"received", m.received}};
}

Json skip_value(const SkippedStep& skip) {
  Json tensors = Json::array();
  for (const NonfiniteTensor& tensor : skip.nonfinite) {
    tensors.push_back({{"name", tensor.name},
                       {"numel", tensor.numel},
                       {"amax_bits", tensor.stats.amax},
                       {"nonfinite", tensor.stats.num_nonfinite},
                       {"zeros", tensor.stats.num_zeros}});
  }
  return {{"step", skip.step},
          {"tensors", skip.num_tensors},
          {"amax_bits", skip.amax},
          {"not_finite", std::move(tensors)}};
}

SkippedStep skip_from(const Json& json) {
  SkippedStep skip{json.at("step"), json.at("tensors"), json.at("amax_bits"), {}};
  for (const Json& tensor : json.at("not_finite")) {
    skip.nonfinite.push_back(
        {tensor.at("name"),
         tensor.at("numel"),
         {tensor.at("amax_bits"), tensor.at("nonfinite"), tensor.at("zeros")}});
  }
  return skip;
}

Json calls_or_null(const std::optional<StepCalls>& calls) {
  if (!calls) return nullptr;
  return {{"launches", calls->launches},
          {"graph_launches", calls->graph_launches},
          {"copies", calls->copies},
          {"allocations", calls->allocations},
          {"waits", calls->waits}};
}

std::optional<StepCalls> calls_from(const Json& json) {
  if (json.is_null()) return {};
  return StepCalls{json.at("launches"), json.at("graph_launches"), json.at("copies"),
                   json.at("allocations"), json.at("waits")};
}

double loss_from(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

Json training_value(const TrainingRun& run) {
  Json json = {{"trajectory_hash", hash_or_null(run.candidate_hash)},
               {"reference_trajectory_hash", hash_or_null(run.reference_hash)},
               {"phases", Json::array()},
               {"steps", run.steps},
               {"skipped_steps", run.skipped_steps},
               {"ended_by_overflow", run.ended},
               {"skips", Json::array()},
               {"losses", Json::array()},
               {"reference_losses", Json::array()},
               {"clipped_steps", run.clipped_steps},
               {"growths", run.growths},
               {"updated_elements", run.updated_elements},
               {"moved_elements", run.moved_elements},
               {"nan_elements", run.nan_elements},
               {"timing", timing_value(run.timing)},
               {"device_calls", calls_or_null(run.device_calls)},
               {"bytes", to_json_value(run.bytes)}};
  for (const PhaseTally& tally : run.tallies) json["phases"].push_back(to_json_value(tally));
  for (const SkippedStep& skip : run.skips) json["skips"].push_back(skip_value(skip));
  for (const double loss : run.losses) json["losses"].push_back(number_or_null(loss));
  for (const double loss : run.reference_losses)
    json["reference_losses"].push_back(number_or_null(loss));
  return json;
}

TrainingRun training_from(const Json& json) {
  TrainingRun run;
  run.candidate_hash = hash_from(json.at("trajectory_hash"));
  run.reference_hash = hash_from(json.at("reference_trajectory_hash"));
  for (const Json& tally : json.at("phases")) run.tallies.push_back(tally_from(tally));
  run.steps = json.at("steps");
  run.skipped_steps = json.at("skipped_steps");
  run.ended = json.at("ended_by_overflow");
  for (const Json& skip : json.at("skips")) run.skips.push_back(skip_from(skip));
  for (const Json& loss : json.at("losses")) run.losses.push_back(loss_from(loss));
  for (const Json& loss : json.at("reference_losses"))
    run.reference_losses.push_back(loss_from(loss));
  run.clipped_steps = json.at("clipped_steps");
  run.growths = json.at("growths");
  run.updated_elements = json.at("updated_elements");
  run.moved_elements = json.at("moved_elements");
  run.nan_elements = json.at("nan_elements");
  run.timing = timing_from(json.at("timing"));
  run.device_calls = calls_from(json.at("device_calls"));
  run.bytes = rank_bytes_from(json.at("bytes"));
  return run;
}

Json ulps_value(const UlpHistogram& ulps) {
  return {{"0", ulps.counts[0]},    {"1", ulps.counts[1]},   {"2", ulps.counts[2]},
          {"3-15", ulps.counts[3]}, {"16+", ulps.counts[4]}, {"sign_or_nan", ulps.sign_or_nan},
          {"largest", ulps.largest}};
}

UlpHistogram ulps_from(const Json& json) {
  return {{json.at("0"), json.at("1"), json.at("2"), json.at("3-15"), json.at("16+")},
          json.at("sign_or_nan"),
          json.at("largest")};
}

Json judged_or_null(const std::optional<JudgedBy>& judged) {
  if (!judged) return nullptr;
  return {{"bits", judged->bits},
          {"bound", judged->bound},
          {"powers", judged->powers},
          {"classes", judged->classes},
          {"nothing", judged->nothing}};
}

std::optional<JudgedBy> judged_from(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return JudgedBy{json.at("bits"), json.at("bound"), json.at("classes"), json.at("nothing"),
                  json.at("powers")};
}

}  // namespace

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json to_json_value(const PhaseTally& tally) {
  return {{"phase", name(tally.phase)},   {"buffer", name(tally.buffer)},
          {"against", tally.against},     {"compared", tally.compared},
          {"differing", tally.differing}, {"class", exactness_class(tally.buffer)}};
}

Json to_json_value(const Divergence& d) {
  Json inputs = Json::object();
  for (const auto& [name, value] : d.inputs) inputs[name] = value;
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
          {"word", d.word},
          {"reference", d.reference_value},
          {"candidate", d.candidate_value},
          {"differing", d.differing},
          {"compared", d.compared},
          {"call", d.call},
          {"hint", d.hint},
          {"order", d.order},
          {"exact", d.exact_value},
          {"message", d.message ? message_value(*d.message) : Json(nullptr)},
          {"inputs", std::move(inputs)}};
}

namespace {

Json flight_value(const RankFlight& of) {
  const auto seconds = [&](std::int64_t since_ns) {
    return std::chrono::duration<double>(std::chrono::nanoseconds(of.flight.now_ns - since_ns))
        .count();
  };
  Json last = Json::array();
  for (const FlightEntry& entry : of.flight.entries) {
    last.push_back({{"collective", name(entry.collective)},
                    {"number", entry.sequence},
                    {"communicator", entry.channel},
                    {"bytes", entry.num_bytes},
                    {"state", name(entry.state)},
                    {"begun_seconds_ago", seconds(entry.begun_ns)}});
  }
  return {{"rank", of.rank},
          {"process", of.flight.pid},
          {"at", of.flight.place},
          {"collectives", of.flight.num_calls},
          {"silent_seconds", seconds(of.flight.moved_ns)},
          {"last", std::move(last)}};
}

Json results_value(const RankResults& results) {
  return {
      {"rank", results.rank}, {"compared", results.compared}, {"digest", to_hex(results.digest)}};
}

RankResults rank_results_from(const Json& json) {
  return {json.at("rank"), json.at("compared"), hash_from(json.at("digest")).value_or(Digest{})};
}

}  // namespace

Json to_json_value(const Result& r) {
  Json training;
  if (r.training) {
    const CaseSpec spec = training_spec(r);
    training = training_value(*r.training);
    training["workload"] = spec.workload;
    training["recipe"] = spec.recipe;
    training["stage"] = spec.stage;
    training["world"] = spec.world.id();
    training["dtype"] = name(spec.dtype);
    training["mode"] = name(spec.mode);
  }
  Json flights = Json::array();
  for (const RankFlight& flight : r.flights) flights.push_back(flight_value(flight));
  Json ranks = Json::array();
  for (const RankResults& rank : r.ranks) ranks.push_back(results_value(rank));
  return {{"id", r.id},
          {"suite", r.suite},
          {"group", r.group},
          {"side", r.side},
          {"class", r.exactness},
          {"held_to", r.held_to},
          {"status", name(r.status)},
          {"reason", r.reason},
          {"replay", r.replay},
          {"compared", r.compared},
          {"differing", r.differing},
          {"seconds", r.seconds},
          {"divergence", divergence_or_null(r.divergence)},
          {"training", std::move(training)},
          {"legal_differences", r.legal_differences},
          {"worst_ratio", number_or_null(r.worst_ratio)},
          {"judged", judged_or_null(r.judged)},
          {"ulps", ulps_value(r.ulps)},
          {"ranks", std::move(ranks)},
          {"flights", std::move(flights)}};
}

Result result_from(const Json& json) {
  Result r;
  r.id = json.at("id");
  r.suite = json.at("suite");
  r.group = json.at("group");
  r.side = json.at("side");
  r.exactness = json.at("class");
  r.held_to = json.at("held_to");
  r.status = from_name<Status>(json.at("status"), all_statuses());
  r.reason = json.at("reason");
  r.replay = json.at("replay");
  r.compared = json.at("compared");
  r.differing = json.at("differing");
  r.seconds = json.at("seconds");
  if (!json.at("divergence").is_null()) r.divergence = divergence_from(json.at("divergence"));
  if (!json.at("training").is_null()) r.training = training_from(json.at("training"));
  r.legal_differences = json.at("legal_differences");
  const Json& ratio = json.at("worst_ratio");
  r.worst_ratio = ratio.is_null() ? std::numeric_limits<double>::quiet_NaN() : ratio.get<double>();
  r.judged = judged_from(json.at("judged"));
  r.ulps = ulps_from(json.at("ulps"));
  for (const Json& rank : json.at("ranks")) r.ranks.push_back(rank_results_from(rank));
  return r;
}

Json to_json_value(const RankReport& r) {
  return {{"run", training_value(r.run)},
          {"divergence", divergence_or_null(r.divergence)},
          {"results", r.results ? results_value(*r.results) : Json(nullptr)}};
}

RankReport rank_report_from(const Json& json) {
  RankReport r;
  r.run = training_from(json.at("run"));
  if (!json.at("divergence").is_null()) r.divergence = divergence_from(json.at("divergence"));
  if (!json.at("results").is_null()) r.results = rank_results_from(json.at("results"));
  return r;
}

}  // namespace zeroproof::verification
