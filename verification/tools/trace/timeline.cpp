// The trace as Chrome trace events, for Perfetto or chrome://tracing.

#include <numeric>

#include "common/io/json.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/tools/trace/trace.hpp"

namespace zeroproof::verification {
namespace {

Json named(const char* what, int process, int thread, const std::string& text) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", text}}}};
}

/// Arguments of a span: its step and phase, and for a collective the bytes to every rank.
Json args_of(const TracedSpan& span, std::size_t step, bool collective, std::int64_t bytes) {
  Json args = {{"step", step + 1}, {"phase", name(span.phase)}, {"bytes_sent", bytes}};
  if (collective) args["bytes_to_ranks"] = Json(span.sent);
  return args;
}

std::int64_t bytes_sent(const TracedSpan& span) {
  return std::accumulate(span.sent.begin(), span.sent.end(), std::int64_t{0});
}

/// A phase sends the bytes of its collectives.
std::int64_t bytes_in(const TracedStep& step, Phase phase) {
  std::int64_t bytes = 0;
  for (const TracedSpan& span : step.collectives)
    bytes += span.phase == phase ? bytes_sent(span) : 0;
  return bytes;
}

/// Complete events; the events of a track are sequential, so they never overlap.
void add_track(Json& events, int process, int thread, const std::string& title,
               const TracedRank& rank, bool collectives) {
  events.push_back(named("thread_name", process, thread, title));
  for (std::size_t s = 0; s < rank.steps.size(); ++s) {
    const TracedStep& step = rank.steps[s];
    for (const TracedSpan& span : collectives ? step.collectives : step.phases) {
      const std::int64_t bytes = collectives ? bytes_sent(span) : bytes_in(step, span.phase);
      events.push_back({{"name", span.name},
                        {"cat", collectives ? "collective" : "phase"},
                        {"ph", "X"},
                        {"ts", static_cast<double>(span.begin_ns) / 1000},
                        {"dur", static_cast<double>(span.end_ns - span.begin_ns) / 1000},
                        {"pid", process},
                        {"tid", thread},
                        {"args", args_of(span, s, collectives, bytes)}});
    }
  }
}

void add_side(Json& events, int process, const std::string& side,
              const std::vector<TracedRank>& ranks) {
  events.push_back(named("process_name", process, 0, side));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const int thread = 2 * static_cast<int>(r);
    const std::string rank = "rank " + std::to_string(r);
    add_track(events, process, thread, rank + " phases", ranks[r], false);
    add_track(events, process, thread + 1, rank + " communication", ranks[r], true);
  }
}

}  // namespace

std::string timeline_json(const StepTrace& trace) {
  Json events = Json::array();
  add_side(events, 1, "reference", trace.reference);
  add_side(events, 2, "production", trace.production);
  const Json file = {{"displayTimeUnit", "ns"},
                     {"otherData",
                      {{"program", std::string("zeroproof ") + ZP_VERSION},
                       {"numeric_contract", contract_version},
                       {"stage", trace.settings.stage},
                       {"world_size", trace.settings.world_size},
                       {"steps", trace.settings.steps},
                       {"micro_batches", trace.settings.micro_batches},
                       {"rule", name(trace.settings.rule)}}},
                     {"traceEvents", events}};
  return file.dump(1) + "\n";
}

}  // namespace zeroproof::verification
