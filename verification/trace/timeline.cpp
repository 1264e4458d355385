// The trace as Chrome trace events, for Perfetto or chrome://tracing.

#include "verification/io/json.hpp"
#include "verification/program/contract_version.hpp"
#include "verification/trace/trace.hpp"

namespace zeroproof::verification {
namespace {

Json named(const char* what, int process, int thread, const std::string& text) {
  return {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", text}}}};
}

/// Complete events; a track runs one thing after another, so they never overlap.
void add_track(Json& events, int process, int thread, const std::string& title,
               const std::vector<TracedSpan>& spans, const char* category) {
  events.push_back(named("thread_name", process, thread, title));
  for (const TracedSpan& span : spans) {
    events.push_back({{"name", span.name},
                      {"cat", category},
                      {"ph", "X"},
                      {"ts", static_cast<double>(span.begin_ns) / 1000},
                      {"dur", static_cast<double>(span.end_ns - span.begin_ns) / 1000},
                      {"pid", process},
                      {"tid", thread}});
  }
}

void add_side(Json& events, int process, const std::string& side, const std::vector<TracedRank>& ranks) {
  events.push_back(named("process_name", process, 0, side));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const int thread = 2 * static_cast<int>(r);
    const std::string rank = "rank " + std::to_string(r);
    add_track(events, process, thread, rank + " phases", ranks[r].phases, "phase");
    add_track(events, process, thread + 1, rank + " communication", ranks[r].collectives, "collective");
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
                       {"micro_batches", trace.settings.micro_batches},
                       {"rule", name(trace.settings.rule)}}},
                     {"traceEvents", events}};
  return file.dump(1) + "\n";
}

}  // namespace zeroproof::verification
