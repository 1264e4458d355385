// The player: a trace as one page that loads no other files and is readable as text without its
// script.

#include <algorithm>

#include "common/base/error.hpp"
#include "common/io/json.hpp"
#include "verification/report/class_fills.hpp"
#include "verification/report/format.hpp"
#include "verification/report/markup.hpp"
#include "verification/report/page.hpp"
#include "verification/report/report_style.hpp"
#include "verification/tools/plan/predict/memory_model.hpp"
#include "verification/tools/trace/sections.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t most_bytes = 300'000;

class Events {
 public:
  explicit Events(const Json& trace) : differences_(trace.at("differences")) {
    for (const Json& step : trace.at("steps")) {
      phase_ = 0;
      for (const Json& phase : step.at("phases")) {
        add_phase(step, phase);
        ++phase_;
      }
      ++step_;
    }
  }
  Json all = Json::array();

 private:
  void add(const char* kind, const Json& of) {
    all.push_back(
        {{"index", index_++}, {"step", step_}, {"phase", phase_}, {"kind", kind}, {"of", of}});
  }

  void add_each(const char* kind, const Json& list) {
    int place = 0;
    for ([[maybe_unused]] const Json& one : list) add(kind, place++);
  }

  void add_phase(const Json& step, const Json& phase) {
    const int first = index_;
    if (phase.at("phase").get<std::string>() == "reduce") add_each("leaf", step.at("leaves"));
    std::vector<int> visits(1);  // of each rank; the k-th visits of all ranks are concurrent
    for (const Json& visit : phase.at("visits")) {
      const auto rank = static_cast<std::size_t>(visit.at("rank").get<int>());
      visits.resize(std::max(visits.size(), rank + 1));
      ++visits[rank];
    }
    for (int k = 0; k < *std::max_element(visits.begin(), visits.end()); ++k) add("visit", k);
    std::vector<int> calls;
    for (const Json& message : phase.at("messages")) calls.push_back(message.at("call"));
    std::sort(calls.begin(), calls.end());
    calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
    for (const int call : calls) add("message", call);
    add_each("node", phase.at("nodes"));
    std::vector<std::string> names;
    for (const Json& rank : phase.at("ranks")) {
      for (const Json::Member& buffer : rank.at("after").members()) {
        if (std::find(names.begin(), names.end(), buffer.name) == names.end())
          names.push_back(buffer.name);
      }
    }
    for (const std::string& name : names) add("buffer", name);
    if (index_ == first) add(phase.at("entered").get<bool>() ? "nothing" : "skipped", Json());
    if (has_any(phase.at("chunks"))) add("chunks", Json());
    if (has_any(phase.at("memory"))) add("memory", Json());
    for (const Json& difference : differences_) {
      if (difference.at("step").get<int>() != step_ + 1 ||
          difference.at("phase").get<std::string>() != phase.at("phase").get<std::string>()) {
        continue;
      }
      add("difference", Json());
      break;
    }
  }

  static bool has_any(const Json& list) {
    for ([[maybe_unused]] const Json& one : list) return true;
    return false;
  }

  const Json& differences_;
  int index_ = 0, step_ = 0, phase_ = 0;
};

Json classes_json() {
  Json fills = Json::object();
  for (int i = 0; i < num_memory_classes; ++i) {
    const auto kind = static_cast<MemoryClass>(i);
    fills[name(kind)] = class_fills[i];
  }
  Json buffers = Json::object();
  for (int i = 0; i < num_buffer_ids; ++i) {
    const auto id = static_cast<BufferId>(i);
    if (const auto kind = class_of(id)) buffers[name(id)] = name(*kind);
  }
  return {{"fills", fills}, {"buffers", buffers}};
}

}  // namespace

std::string trace_html(const StepTrace& trace) {
  const Json values = Json::parse(trace_json(trace));
  const std::string text = trace_text(trace, false);
  const std::string heading = text.substr(0, text.find(".\n") + 1);  // it may take two lines
  const std::string out = filled_page(
      trace_page, {{"heading", escaped(heading, Within::element)},
                   {"text", escaped(text + "\n" + memory_map_text(trace), Within::element)},
                   {"trace", script_json(values)},
                   {"events", script_json(Events(values).all)},
                   {"classes", script_json(classes_json())}});
  const auto bytes = static_cast<std::int64_t>(out.size());
  ZP_CHECK(out.size() <= most_bytes, ErrorCode::config,
           "the page of this trace would have " + grouped(bytes) + " bytes",
           "a page has " + grouped(most_bytes) + " at most, to be sent and opened anywhere",
           "take fewer --steps, --micro-batches or a smaller --world; --json has no limit");
  return out;
}

}  // namespace zeroproof::verification
