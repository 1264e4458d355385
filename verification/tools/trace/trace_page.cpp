// The player: a trace as one page that loads no other files and is readable as text without its
// script.

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

constexpr std::size_t most_bytes = 400'000;

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
  const std::string text = trace_text(trace, false);
  const std::string heading = text.substr(0, text.find(".\n") + 1);  // it may take two lines
  const std::string out = filled_page(
      trace_page, {{"heading", escaped(heading, Within::element)},
                   {"text", escaped(text + "\n" + memory_map_text(trace), Within::element)},
                   {"trace", script_json(Json::parse(trace_json(trace)))},
                   {"classes", script_json(classes_json())}});
  const auto bytes = static_cast<std::int64_t>(out.size());
  ZP_CHECK(out.size() <= most_bytes, ErrorCode::config,
           "the page of this trace would have " + grouped(bytes) + " bytes",
           "a page has " + grouped(most_bytes) + " at most, to be sent and opened anywhere",
           "take fewer --steps, --micro-batches or a smaller --world; --json has no limit");
  return out;
}

}  // namespace zeroproof::verification
