// zeroproof trace --html: a page that loads no other files, with the values of --json and every
// event of them.

#include <doctest.h>

#include <map>
#include <set>

#include "tests/verification/cli/cli_support.hpp"
#include "verification/tools/trace/trace.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;
using Values = nlohmann::json;

/// The content of a script element of the page. The text ends at the first "</", as it does in a
/// browser.
Values embedded(const std::string& page, const std::string& id) {
  const std::string opening = "<script type=\"application/json\" id=\"" + id + "\">";
  const std::size_t begin = page.find(opening);
  REQUIRE(begin != std::string::npos);
  const std::size_t text = begin + opening.size();
  return Values::parse(page.substr(text, page.find("</", text) - text));
}

/// Every event with its kind, as the values have them.
std::set<std::string> expected_events(const Values& trace) {
  std::set<std::string> all;
  std::size_t step = 0;
  for (const Values& one : trace.at("steps")) {
    for (std::size_t p = 0; p < one.at("phases").size(); ++p) {
      const Values& phase = one.at("phases").at(p);
      const std::string place = std::to_string(step) + "." + std::to_string(p) + " ";
      const std::size_t before = all.size();
      if (phase.at("phase") == "reduce") {
        for (const Values& leaf : one.at("leaves"))
          all.insert(place + "leaf " + leaf.at("micro_batch").dump());
      }
      for (const Values& message : phase.at("messages")) {
        all.insert(place + "message " + message.at("call").dump());
      }
      for (std::size_t n = 0; n < phase.at("nodes").size(); ++n) {
        all.insert(place + "node " + std::to_string(n));
      }
      for (const Values& rank : phase.at("ranks")) {
        for (const auto& [name, buffer] : rank.at("after").items()) {
          all.insert(place + "buffer " + Values(name).dump());
        }
      }
      std::map<int, int> visits;
      for (const Values& visit : phase.at("visits")) {
        all.insert(place + "visit " + std::to_string(visits[visit.at("rank").get<int>()]++));
      }
      if (all.size() == before)
        all.insert(place + (phase.at("entered") ? "nothing" : "skipped") + " null");
      for (const char* list : {"chunks", "memory"}) {
        if (!phase.at(list).empty()) all.insert(place + list + " null");
      }
      for (const Values& difference : trace.at("differences")) {
        if (difference.at("step") == step + 1 && difference.at("phase") == phase.at("phase"))
          all.insert(place + "difference null");
      }
    }
    ++step;
  }
  return all;
}

std::vector<TraceSettings> settings_of_pages() {
  std::vector<TraceSettings> all(3);
  all[1].stage = 3;
  all[1].world_size = 4;
  all[2].param_dtype = DType::fp16;
  all[2].overflow_step = 1;
  return all;
}

}  // namespace

TEST_CASE(
    "trace page: contains the values of --json in at most 300,000 bytes, and makes no requests") {
  for (const TraceSettings& settings : settings_of_pages()) {
    CAPTURE(settings.stage);
    const StepTrace trace = trace_step(settings);
    const std::string page = trace_html(trace);
    CHECK(embedded(page, "trace") == Values::parse(trace_json(trace)));
    CHECK(page.size() <= 300'000);
    // Before every element that could make a request.
    CHECK(page.find("content=\"default-src 'none'; script-src 'unsafe-inline'; style-src "
                    "'unsafe-inline';") < page.find("<style>"));
    for (const char* other : {"http:", "https:", "src=", "srcset", "href=", "@import", "url(",
                              "innerHTML", "fetch(", "import(", "XMLHttpRequest", "WebSocket",
                              "EventSource", "sendBeacon", "<link", "<iframe", "<object", "<img"}) {
      CAPTURE(other);
      CHECK(page.find(other) == std::string::npos);
    }
    CHECK(page == trace_html(trace_step(settings)));
  }
}

TEST_CASE("every event of the page has an index, and everything that happened is an event once") {
  for (const TraceSettings& settings : settings_of_pages()) {
    CAPTURE(settings.stage);
    const StepTrace trace = trace_step(settings);
    const Values events = embedded(trace_html(trace), "events");
    std::set<std::string> seen;
    std::pair<int, int> last{0, 0};
    for (std::size_t i = 0; i < events.size(); ++i) {
      const Values& event = events.at(i);
      CHECK(event.at("index") == i);
      const std::pair<int, int> now{event.at("step"), event.at("phase")};
      CHECK(now >= last);
      last = now;
      seen.insert(event.at("step").dump() + "." + event.at("phase").dump() + " " +
                  event.at("kind").get<std::string>() + " " + event.at("of").dump());
    }
    CHECK(seen.size() == events.size());
    CHECK(seen == expected_events(Values::parse(trace_json(trace))));
  }
}

TEST_CASE(
    "arrow keys go to the event before and to the next one, within all of them, from the first one "
    "on") {
  const std::string page = trace_html(trace_step({}));
  for (const char* line :
       {"let at = 0,",
        "const move = { ArrowLeft: () => go(at - 1), ArrowRight: () => go(at + 1) }[key.key];",
        "at = Math.max(0, Math.min(events.length - 1, to));",
        "document.addEventListener(\"keydown\", key => {"}) {
    CAPTURE(line);
    CHECK(page.find(line) != std::string::npos);
  }
}

TEST_CASE(
    "trace page: contains visits, chunks and memory of units, and the differences of a fault") {
  const auto kinds = [](const Values& events) {
    std::set<std::string> all;
    for (const Values& event : events) all.insert(event.at("kind").get<std::string>());
    return all;
  };
  TraceSettings stage3;
  stage3.stage = 3;
  const std::set<std::string> layered = kinds(embedded(trace_html(trace_step(stage3)), "events"));
  for (const char* kind : {"visit", "chunks", "memory", "leaf", "message", "node", "buffer"})
    CHECK_MESSAGE(layered.count(kind) == 1, kind);
  CHECK(layered.count("difference") == 0);
  CHECK(kinds(embedded(trace_html(trace_step({})), "events")).count("visit") == 0);

  const TemporaryFolder folder;
  const std::string file = folder.file("fault.html");
  CHECK(run_cli("trace --fault double-unscale --html " + quoted(file), "zeroproof-faults")
            .exit_code == 0);
  const Values events = embedded(read_file(file), "events");
  std::string first;
  for (const Values& event : events) {
    if (event.at("kind") == "difference" && first.empty()) first = event.at("phase").dump();
  }
  CHECK(first == "2");  // unscale
  CHECK(read_file(file).find("with the\nfault double-unscale.</p>") != std::string::npos);
}

TEST_CASE("without its script the page is the text") {
  const std::string page = trace_html(trace_step({}));
  CHECK(page.find("<details id=\"text\" open>") != std::string::npos);
  CHECK(page.find("R12: clip_coef") != std::string::npos);
  CHECK(page.find("<div id=\"player\" hidden>") != std::string::npos);
}

TEST_CASE("--html writes the page, or one sentence and no file at all") {
  const TemporaryFolder folder;
  const std::string page = folder.file("page.html"), json = folder.file("t.json");
  CHECK(run_cli("trace --html " + quoted(page)).exit_code == 0);
  CHECK(read_file(page) == trace_html(trace_step({})));

  const std::string large = folder.file("large.html");
  expect_refusal("trace --stage 3 --world 4 --steps 8 --micro-batches 16 --html " + quoted(large) +
                     " --json " + quoted(json),
                 "fewer --steps");
  CHECK(!std::filesystem::exists(large));
  CHECK(!std::filesystem::exists(json));
  expect_refusal("trace --html " + quoted(page + "/in_a_file.html"), "in_a_file.html");
}
