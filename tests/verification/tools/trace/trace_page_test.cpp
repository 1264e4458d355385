// zeroproof trace --html: a page that loads no other files, with the values of --json.

#include <doctest.h>

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
    "trace page: contains the values of --json in at most 400,000 bytes, and makes no requests") {
  for (const TraceSettings& settings : settings_of_pages()) {
    CAPTURE(settings.stage);
    const StepTrace trace = trace_step(settings);
    const std::string page = trace_html(trace);
    CHECK(embedded(page, "trace") == Values::parse(trace_json(trace)));
    CHECK(page.size() <= 400'000);
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

TEST_CASE("trace page: no placeholder is left, and the script has the buttons and keys") {
  const std::string page = trace_html(trace_step({}));
  CHECK(page.find("{{") == std::string::npos);
  for (const char* part : {">Previous<", ">Next<", ">Next phase<", "ArrowLeft: -1, ArrowRight: 1",
                           "prefers-reduced-motion", "color-scheme:light dark"}) {
    CAPTURE(part);
    CHECK(page.find(part) != std::string::npos);
  }
  const Values classes = embedded(page, "classes");
  CHECK(classes.at("fills").size() == num_memory_classes);
  for (const auto& [kind, fill] : classes.at("fills").items()) {
    CAPTURE(kind);
    CHECK(page.find(" " + kind + ": \"") != std::string::npos);  // its meaning, in the legend
  }
  for (const auto& [buffer, kind] : classes.at("buffers").items()) {
    CAPTURE(buffer);
    CHECK(classes.at("fills").contains(kind.get<std::string>()));
  }
}

TEST_CASE("trace page: contains the differences of a fault and the event that they are of") {
  const TemporaryFolder folder;
  const std::string file = folder.file("fault.html");
  CHECK(run_cli("trace --fault double-unscale --html " + quoted(file), "zeroproof-faults")
            .exit_code == 0);
  const Values trace = embedded(read_file(file), "trace");
  CHECK(trace.at("differences").at(0).at("phase") == "unscale");
  const Values& phase = trace.at("steps").at(0).at("phases").at(2);
  CHECK(phase.at("phase") == "unscale");
  CHECK(phase.at("events").back().at("kind") == "write");
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
