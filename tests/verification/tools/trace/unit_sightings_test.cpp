// Gathers, visits and releases of stage 3, as observed: real ranks against the order of
// [ZeRO:units] and against their messages; then sightings by hand that no trace has.

#include <doctest.h>

#include <algorithm>
#include <string>

#include "common/base/error.hpp"
#include "verification/tools/trace/trace.hpp"
#include "verification/tools/trace/unit_sightings.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using Event = TracedVisit::Event;
using Kind = UnitSighting::Kind;

std::string text_of(const std::vector<TracedVisit>& visits) {
  std::string text;
  for (const TracedVisit& visit : visits) {
    text += std::string(text.empty() ? "" : " ") + name(visit.event) + std::to_string(visit.unit);
    text += visit.micro_batch < 0 ? "*" : "/" + std::to_string(visit.micro_batch);
  }
  return text;
}

/// The order of one micro-step of three units: the last one is kept between its two visits.
std::string expected(std::int64_t micro_batch) {
  const std::string of = micro_batch < 0 ? "*" : "/" + std::to_string(micro_batch);
  std::string text;
  for (const std::string step : {"f0", "f1", "f2 b2", "b1", "b0"}) {
    const std::string unit = step.substr(1, 1);
    text += " gather" + unit + of;
    if (micro_batch >= 0) text += (step[0] == 'f' ? " forward" : " backward") + unit + of;
    if (micro_batch >= 0 && step.size() > 2) text += " backward" + unit + of;
    text += " release" + unit + of;
  }
  return text;
}

/// Elements of a unit that a rank owns.
std::int64_t owned(const StepTrace& trace, int rank, int unit) {
  const FlatRange& range = trace.model.units()[unit];
  std::int64_t count = 0;
  for (const Piece& piece : trace.model.layout().pieces(trace.shards.shard(rank))) {
    if (piece.global_begin >= range.begin && piece.global_begin < range.end) count += piece.numel;
  }
  return count;
}

template <class Body>
void for_settings(const Body& body) {
  for (int world = 1; world <= most_traced_ranks; ++world) {
    for (const std::int64_t micro_batches : {1, 3, 5, 8}) {
      for (const std::int64_t bucket : {0, 1024, 2048}) {
        TraceSettings settings;
        settings.stage = 3;
        settings.world_size = world;
        settings.micro_batches = micro_batches;
        settings.bucket_numel = bucket;
        CAPTURE(world);
        CAPTURE(micro_batches);
        CAPTURE(bucket);
        body(trace_step(settings));
      }
    }
  }
}

using Sightings = std::vector<UnitSighting>;

UnitSighting visit(Event event, int unit, std::int64_t bytes) {
  return {Kind::visit, bytes, {event, 0, unit}};
}

const std::vector<std::int64_t> three_units = {100, 20, 20};

}  // namespace

TEST_CASE(
    "every rank of every step gathers, visits and releases units in the order of [ZeRO:units]") {
  for_settings([](const StepTrace& trace) {
    const std::int64_t world = trace.settings.world_size;
    for (std::int64_t rank = 0; rank < world; ++rank) {
      for (const TracedStep& step : trace.production[rank].steps) {
        std::string order;
        for (std::int64_t first = 0; first < trace.settings.micro_batches; first += world) {
          const std::int64_t own = first + rank;
          order += expected(own < trace.settings.micro_batches ? own : -1);
        }
        CHECK(text_of(step.visits) == order.substr(1));
      }
    }
  });
}

TEST_CASE("unit sightings: a gather belongs to the unit whose elements its rank sends") {
  for_settings([](const StepTrace& trace) {
    if (trace.settings.world_size == 1) return;  // it sends nothing
    for (int rank = 0; rank < trace.settings.world_size; ++rank) {
      for (const TracedStep& step : trace.production[rank].steps) {
        std::vector<std::int64_t> seen, sent;
        for (const TracedVisit& one : step.visits) {
          if (one.event == Event::gather) seen.push_back(2 * owned(trace, rank, one.unit));  // bf16
        }
        for (const TracedSpan& span : step.collectives) {
          if (span.phase != Phase::reduce || span.name != "all_gather") continue;
          sent.push_back(*std::max_element(span.sent.begin(), span.sent.end()));
        }
        CHECK(seen == sent);
      }
    }
  });
}

TEST_CASE("units that are there together, kept, or released late differ in their bytes") {
  const auto seen = [](const Sightings& mine) {
    return text_of(seen_visits({mine, {}}, three_units).front());
  };
  const Sightings one_ahead = {
      {Kind::begin, 7},        {Kind::all_gather, 107},      visit(Event::forward, 0, 107),
      {Kind::all_gather, 127}, visit(Event::forward, 1, 27), {Kind::end, 7}};
  CHECK(seen(one_ahead) == "gather0/0 forward0/0 gather1/0 release0/0 forward1/0 release1/0");
  const Sightings kept = {{Kind::begin, 0},
                          {Kind::all_gather, 20},
                          visit(Event::forward, 1, 20),
                          visit(Event::backward, 1, 20),
                          {Kind::end, 20}};
  CHECK(seen(kept) == "gather1/0 forward1/0 backward1/0");
  const Sightings again = {
      {Kind::begin, 0},       {Kind::all_gather, 20},        visit(Event::forward, 1, 20),
      {Kind::all_gather, 20}, visit(Event::backward, 1, 20), {Kind::end, 0}};
  CHECK(seen(again) == "gather1/0 forward1/0 release1/0 gather1/0 backward1/0 release1/0");
}

TEST_CASE(
    "unit sightings: on a single rank the ledger shows allocated, released and missing units") {
  const auto seen = [](const Sightings& mine) {
    return text_of(seen_visits({mine}, three_units).front());
  };
  CHECK(seen({{Kind::begin, 0},
              visit(Event::forward, 0, 100),
              visit(Event::forward, 1, 20),
              {Kind::end, 0}}) ==
        "gather0/0 forward0/0 release0/0 gather1/0 forward1/0 release1/0");
  CHECK(seen({{Kind::begin, 0},
              visit(Event::forward, 2, 20),
              {Kind::leaf, 0},
              visit(Event::forward, 2, 20),
              {Kind::end, 0}}) ==
        "gather2/0 forward2/0 release2/0 gather2/0 forward2/0 release2/0");
  CHECK(seen({{Kind::begin, 5}, visit(Event::forward, 1, 5), {Kind::end, 5}}) == "forward1/0");
}

TEST_CASE("an all_gather that no visit of a unit follows is not one of parameters") {
  const Sightings without_visits = {
      {Kind::begin, 9}, {Kind::all_gather, 9}, {Kind::leaf, 9}, {Kind::end, 9}};
  CHECK(text_of(seen_visits({without_visits, without_visits}, three_units).back()).empty());
}

TEST_CASE("unit sightings: bytes that are no sum of units are an error") {
  CHECK_THROWS_AS(seen_visits({{{Kind::begin, 0}, {Kind::end, 20}}}, three_units), Error);
  const Sightings too_much = {
      {Kind::begin, 0}, {Kind::all_gather, 30}, visit(Event::forward, 1, 30)};
  CHECK_THROWS_AS(seen_visits({too_much, {}}, three_units), Error);
}
