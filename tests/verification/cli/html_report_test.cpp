// The HTML report: its verdict as text, its values as JSON, and the whole page parsed by Python's
// XML parser. trace/page_in_browser.py checks the drawing in a browser.

#include <doctest.h>

#include "tests/support/skip.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "verification/cases/run_report.hpp"

namespace html_report_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// True if python's XML parser accepts the page; nothing if there is no python.
std::optional<bool> parses(const std::string& page) {
  if (std::system("command -v python3 >/dev/null 2>&1") != 0) return std::nullopt;
  const TemporaryFolder folder;
  const std::string file = folder.write("page.html", page);
  const std::string script = "'import sys, xml.etree.ElementTree as e; e.parse(sys.argv[1])'";
  return std::system(("python3 -c " + script + " " + quoted(file) + " 2>/dev/null").c_str()) == 0;
}

/// The values that the page's script draws. The text ends at the first "<", as in a browser.
nlohmann::json values_of(const std::string& page) {
  const std::string opening = "<script type=\"application/json\" id=\"report\">";
  const std::size_t begin = page.find(opening) + opening.size();
  return nlohmann::json::parse(page.substr(begin, page.find('<', begin) - begin));
}

Result training(const std::string& id, Status status) {
  Result r = training_result(parse_case_id(id).value());
  r.status = status;
  return r;
}

}  // namespace

TEST_CASE(
    "HTML report: shows the verdict, the pairs visited and the first difference, for any text") {
  RunReport report;
  report.capabilities = {{"compiler", true, "g++ <\"12\"> & 'more'"}};
  report.traces.emplace_back();
  report.traces[0].workload = "byte_gpt_tiny";
  report.traces[0].steps = {{5.5, 1, 1, 0, false}, {5.25, 1, 1, 0, true}};
  report.traces[0].hash = Digest{1, 2};
  report.results = {
      training("byte_gpt_tiny/adamw/host/stage1/self/bf16/lockstep/bucket:4096/omp:1",
               Status::pass),
      training("byte_gpt_tiny/adamw/host/stage1/threads:3/bf16/lockstep/bucket:4096/omp:1",
               Status::fail)};
  report.results[0].training->candidate_hash = Digest{1, 2};
  Result call;
  call.suite = "op";
  call.group = "clip <b>";
  call.id = "op/clip/<script>alert(1)</script>";
  call.status = Status::fail;
  call.reason = "a < b & c \x01\xff";
  call.ulps.counts = {5, 2, 0, 0, 1};
  call.ulps.largest = 77;
  report.results.push_back(call);
  const std::string page = to_html(report, false);
  CHECK(has(page, "Not proved: see the first differences below."));
  CHECK(has(page, "1 pass, 2 fail in"));
  CHECK(has(page, "exit code 1"));
  const nlohmann::json values = values_of(page);
  const nlohmann::json& one = values.at("trainings").at(0);
  CHECK(one.at("title") == "byte_gpt_tiny adamw bf16");
  CHECK(one.at("hash") == to_hex(Digest{1, 2}));
  CHECK(one.at("steps").dump() == "[[5.5,false],[5.25,true]]");
  CHECK(one.at("equal") == 1);
  CHECK(one.at("cases") == 2);
  CHECK(values.at("cells").dump() ==
        R"([["byte_gpt_tiny adamw","host lockstep bf16","stage 1, self",1,0,0],)"
        R"(["byte_gpt_tiny adamw","host lockstep bf16","stage 1, threads:3",0,1,0],)"
        R"(["op","clip <b>","cases",0,1,0]])");
  CHECK(values.at("failures").size() == 2);
  CHECK(values.at("failures").at(1).at("id") == "op/clip/<script>alert(1)</script>");
  CHECK(values.at("failures").at(1).at("ulps").dump() == "[5,2,0,0,1,0]");
  CHECK(values.at("failures").at(0).at("ulps").is_null());
  CHECK(values.at("machine").dump() == R"([["compiler",true,"g++ <\"12\"> & 'more'"]])");
  CHECK(has(page, "<pre>zeroproof"));
  CHECK(has(page, "FAIL op/clip/&lt;script&gt;"));
  CHECK_FALSE(has(page, "<script>alert"));
  CHECK_FALSE(has(page, "clip <b>"));
  for (const char* elsewhere : {"http:", "https:", "src=", "href=", "@import"})
    CHECK_FALSE(has(page, elsewhere));
  CHECK(has(page, "name=\"viewport\""));
  const std::optional<bool> good = parses(page);
  if (!good) return skip_case("python3 is not here to parse the page");
  CHECK(*good);
  CHECK_FALSE(*parses(page + "<"));
}

TEST_CASE("HTML report: a page without failures states so, a page without verdicts does not") {
  RunReport report;
  CHECK(has(to_html(report, false), "Nothing was proved"));
  report.results = {training("byte_gpt_tiny/adamw/host/stage1/self/bf16/lockstep/bucket:4096/omp:1",
                             Status::pass)};
  CHECK(has(to_html(report, false), "Proved: everything"));
  CHECK(values_of(to_html(report, false)).at("failures").empty());
  report.results.push_back(training(
      "byte_gpt_tiny/adamw/host/stage0/self/bf16/lockstep/bucket:4096/omp:1", Status::mistrusted));
  report.results.back().reason = "clipping never bound";
  CHECK(values_of(to_html(report, false)).at("not_judged").dump() ==
        R"([["mistrusted: clipping never bound",1]])");
  CHECK(values_of(to_html(report, false)).at("remarks").empty());
  CHECK(has(to_html(report, false),
            "Proved by 1 of 2 cases: everything that was compared is equal."));
  report.results[0].exactness = "bounded";
  report.results[0].reason = "no clip";
  CHECK(values_of(to_html(report, false)).at("remarks").dump() == R"([["no clip",1]])");
  CHECK(has(to_html(report, false), "is equal, or within its bound."));
  CHECK(has(to_html(report, true), "Not proved"));
}

TEST_CASE("HTML report: verify writes the page") {
  const TemporaryFolder folder;
  const CliResult ran = run_cli("verify op/clip_value/host/x86-64/fill:ties --report " +
                                quoted("text,html:" + folder.file("r/a.html")));
  CHECK(ran.exit_code == 0);
  const std::string page = read_file(folder.file("r/a.html"));
  CHECK(values_of(page).at("cells").dump() == R"([["op","clip_value","host x86-64",1,0,0]])");
}

TEST_CASE("HTML report: shows the rules for a plug-in, and the visited pairs of settings") {
  RunReport report;
  report.results = {training("byte_gpt_tiny/adamw/host/stage1/self/bf16/lockstep/bucket:4096/omp:1",
                             Status::pass)};
  CHECK_FALSE(has(to_html(report, false), "held to"));
  CHECK(values_of(to_html(report, false)).at("axes").empty());
  report.held_to = "the dialect <torch>";
  report.notes = {"9 of 12 variants were not judged: mine takes no <amsgrad>"};
  report.axes = {
      {"stage", {3, 4}, {}}, {"dtype", {2, 2}, {{5, 8}}}, {"sum & more", {0, 1}, {{0, 0}, {1, 1}}}};
  const std::string page = to_html(report, false);
  CHECK(has(page, "held to the dialect &lt;torch&gt;, not to the contract's bits"));
  CHECK(has(page, "<p>Note: 9 of 12 variants were not judged: mine takes no &lt;amsgrad&gt;.</p>"));
  CHECK(values_of(page).at("axes").at(2) ==
        nlohmann::json::parse(R"({"name":"sum & more","values":[0,1],"pairs":[[0,0],[1,1]]})"));
  const std::optional<bool> good = parses(page);
  if (!good) return skip_case("python3 is not here to parse the page");
  CHECK(*good);
}

TEST_CASE("nightly: HTML report: verify --cover adds its pairs, and a dialect its name") {
  const TemporaryFolder folder;
  const std::string file = folder.file("a.html");
  CHECK(run_cli("verify byte_gpt_tiny --cover values --slice 1/200 --report " +
                quoted("html:" + file))
            .exit_code <= 4);
  const std::string page = read_file(file);
  CHECK(values_of(page).at("axes").size() > 3);
  CHECK(values_of(page).at("axes").at(0).at("values").at(0) > 0);
}

}  // namespace html_report_test
