// JUnit reports, read back by a third-party XML parser.

#include <doctest.h>

#include "tests/support/skip.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "verification/cases/run_report.hpp"

namespace junit_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

bool has(const char* program) {
  return std::system((std::string("command -v ") + program + " >/dev/null 2>&1").c_str()) == 0;
}

/// Output of `script` (python, root = the parsed document) for a document; "" if it is not XML.
std::string ask(const std::string& xml, const std::string& script) {
  const TemporaryFolder folder;
  folder.write("report.xml", xml);
  folder.write(
      "ask.py",
      "import sys, xml.etree.ElementTree as e\nroot = e.parse(sys.argv[1]).getroot()\n" + script);
  const std::string command = "python3 " + quoted(folder.file("ask.py")) + " " +
                              quoted(folder.file("report.xml")) + " >" +
                              quoted(folder.file("out")) + " 2>&1";
  const int status = std::system(command.c_str());
  return status == 0 ? read_file(folder.file("out")) : "";
}

/// One case of every status, with texts that need escaping.
RunReport nasty_report() {
  RunReport report;
  report.capabilities = {{"compiler", true, "g++ <\"12\"> & 'more'"}};
  report.seconds = 1.5;
  for (int i = 0; i < num_statuses; ++i) {
    Result check;
    check.group = i % 2 == 0 ? "op <a>" : "op b";
    check.id = "op/a&b/" + std::to_string(i) + "/\"quoted\"";
    check.status = static_cast<Status>(i);
    check.reason =
        "a < b & c > d \"e\" 'f' ]]> \x01\x1b[31m\x7f\n\ttab \xff\xfe \xed\xa0\x80 \xef\xbf\xbf "
        "\xc3\xa9";
    check.replay = "zeroproof replay 'a b' --text \"x\"";
    check.seconds = 0.25;
    report.results.push_back(check);
  }
  report.results.push_back(training_result({}));
  report.results.back().status = Status::pass;
  return report;
}

}  // namespace

TEST_CASE("JUnit: any text makes a document that parsers accept") {
  const std::string xml = to_junit(nasty_report(), false);
  if (has("xmllint")) {
    const TemporaryFolder folder;
    const std::string file = folder.write("report.xml", xml);
    CHECK(std::system(("xmllint --noout " + quoted(file) + " 2>/dev/null").c_str()) == 0);
  }
  if (!has("python3")) return skip_case("python3 is not here to parse the report");
  CHECK(ask(xml,
            "print(root.tag, root.get('tests'), root.get('failures'), root.get('errors'), "
            "root.get('time'))") == "testsuites 9 2 3 1.500000\n");
  CHECK(ask(xml, "print([s.get('skipped') for s in root])") == "['1', '1', '0']\n");
  CHECK(ask(xml, "print([s.get('name') for s in root])") == "['op <a>', 'op b', 'byte_gpt']\n");
  CHECK(ask(xml, "print([c.get('name') for c in root[1]][1:])") ==
        "['op/a&b/1/\"quoted\"', 'op/a&b/3/\"quoted\"', 'op/a&b/5/\"quoted\"', "
        "'op/a&b/7/\"quoted\"']\n");
  CHECK(ask(xml, "print(ascii(root[1].find('testcase/failure').get('message')))")
            .find(R"(a < b & c > d "e" \'f\' ]]> [31m\n\ttab \ufffd\ufffd)") == 1);
  CHECK(ask(xml, "print(root[1].find('testcase/failure').get('type'))") == "fail\n");
  CHECK(ask(xml, "print(root[1].find('testcase/failure').text)")
            .find("  replay    zeroproof replay 'a b' --text \"x\"\n") != std::string::npos);
  CHECK(
      ask(xml, "print(sorted({c.tag for s in root for t in s.findall('testcase') for c in t}))") ==
      "['error', 'failure', 'skipped']\n");
  CHECK(ask(xml,
            "print({p.get('name'): p.get('value') for p in "
            "root[0].find('properties')}['zeroproof.compiler'])") == "g++ <\"12\"> & 'more'\n");
  CHECK(ask(xml, "print([s.find('properties') is not None for s in root])") ==
        "[True, True, True]\n");
  CHECK(ask(xml, "print(root[0][1].get('time'), root[0].get('time'))") == "0.250000 1.000000\n");
}

TEST_CASE("JUnit: elements and attributes are those that Jenkins accepts, in their order") {
  const char* const structure = R"(
parts = {  # element: its attributes, those that must be there, its children
  'testsuites': ('name time tests failures errors', '', 'testsuite'),
  'testsuite': ('name tests failures errors group time skipped timestamp hostname id package file log url',
                'name tests failures errors', 'testsuite properties testcase system-out system-err'),
  'properties': ('', '', 'property'),
  'property': ('name value', 'name value', ''),
  'testcase': ('name time classname group', 'name', 'skipped error failure system-out system-err'),
  'skipped': ('type message', '', ''), 'error': ('type message', '', ''), 'failure': ('type message', '', ''),
  'system-out': ('', '', ''), 'system-err': ('', '', '')}
import re
def check(element):
  known, needed, children = (set(part.split()) for part in parts[element.tag])
  if not needed <= set(element.keys()) <= known: print(element.tag, 'has', sorted(element.keys()))
  time = element.get('time', '')
  if not re.fullmatch(r'(\d{1,3},?)*(\.\d*)?', time): print(element.tag, 'lasts', time)
  for child in element:
    if child.tag not in children: print(child.tag, 'is a child of', element.tag)
    check(child)
check(root)
print('checked')
)";
  if (!has("python3")) return skip_case("python3 is not here to parse the report");
  CHECK(ask(to_junit(nasty_report(), false), structure) == "checked\n");
  CHECK(ask(to_junit(nasty_report(), true), structure) == "checked\n");
  CHECK(ask(to_junit({}, false), structure) == "checked\n");
}

TEST_CASE("JUnit: a failure has the place, the result and the expectation") {
  RunReport report;
  report.results.push_back(training_result({}));
  report.results.back().status = Status::fail;
  Divergence& d = report.results.back().divergence.emplace();
  d.step = 3;
  d.buffer = "master";
  d.what = "differs from the reference";
  d.reference_value = "0x0 (0)";
  d.candidate_value = "0x1 (1e-45)";
  const std::string xml = to_junit(report, false);
  for (const char* part :
       {"step 3  phase prepare  rank 0  buffer master: differs from the reference\n",
        "values    got 0x1 (1e-45)  want 0x0 (0)\n"}) {
    CHECK_MESSAGE(xml.find(part) != std::string::npos, part);
  }
}

TEST_CASE("JUnit: strict counts mistrusted cases as failures") {
  const RunReport report = nasty_report();
  CHECK(to_junit(report, false).find("failures=\"2\"") != std::string::npos);
  CHECK(to_junit(report, true).find("failures=\"3\"") != std::string::npos);
}

TEST_CASE("JUnit: verify writes the document") {
  const TemporaryFolder folder;
  const std::string file = folder.file("new folder/junit,1.xml");
  const CliResult result =
      run_cli("verify 'op/unscale/host/x86-64/*' --report " + quoted("text,junit:" + file));
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("report: " + file) != std::string::npos);
  const std::string xml = read_file(file);
  CHECK(xml.find("tests=\"7\" failures=\"0\" errors=\"0\"") != std::string::npos);
  CHECK(xml.find(" skipped=\"0\">") != std::string::npos);
  if (has("python3")) CHECK(ask(xml, "print(len(root), root[0].get('name'))") == "1 unscale\n");
  const CliResult unwritable = run_cli("verify op/unscale --report junit:/dev/null/x.xml");
  CHECK(unwritable.exit_code == 2);
  CHECK(unwritable.err.find("cannot be written") != std::string::npos);
  CHECK(run_cli("verify op/unscale --report junit:").exit_code == 2);
}

TEST_CASE("JUnit: tampered results are failures of their own type, not errors") {
  RunReport report;
  report.results.push_back(training_result({}));
  report.results.back().status = Status::tampered;
  const std::string xml = to_junit(report, false);
  CHECK(xml.find("failures=\"1\" errors=\"0\"") != std::string::npos);
  CHECK(xml.find("type=\"tampered\"") != std::string::npos);
}

}  // namespace junit_test
