// JUnit reports, read back by an XML parser that is not ours.

#include <doctest.h>

#include "tests/verification/cli_support.hpp"
#include "verification/run_report.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

bool has(const char* program) {
  return std::system((std::string("command -v ") + program + " >/dev/null 2>&1").c_str()) == 0;
}

/// What `script` (python, root = the parsed document) prints about a document; "" if it is no XML.
std::string ask(const std::string& xml, const std::string& script) {
  const TemporaryFolder folder;
  folder.write("report.xml", xml);
  folder.write("ask.py",
               "import sys, xml.etree.ElementTree as e\nroot = e.parse(sys.argv[1]).getroot()\n" + script);
  const std::string command = "python3 " + quoted(folder.file("ask.py")) + " " +
                              quoted(folder.file("report.xml")) + " >" + quoted(folder.file("out")) + " 2>&1";
  const int status = std::system(command.c_str());
  return status == 0 ? read_file(folder.file("out")) : "";
}

/// One case of every status, with texts that break careless writers.
RunReport nasty_report() {
  RunReport report;
  report.capabilities = {{"compiler", true, "g++ <\"12\"> & 'more'"}};
  report.seconds = 1.5;
  for (int i = 0; i < num_statuses; ++i) {
    CheckResult check;
    check.suite = i % 2 == 0 ? "op <a>" : "op b";
    check.id = "op/a&b/" + std::to_string(i) + "/\"quoted\"";
    check.status = static_cast<Status>(i);
    check.reason = std::string(
        "a < b & c > d \"e\" 'f' ]]> \x01\x1b[31m\x7f\n\ttab \xff\xfe \xed\xa0\x80 \xef\xbf\xbf \xc3\xa9",
        60);
    check.replay = "zeroproof replay 'a b' --text \"x\"";
    check.seconds = 0.25;
    report.checks.push_back(check);
  }
  CaseResult step;
  step.status = Status::pass;
  report.cases.push_back(step);
  return report;
}

}  // namespace

TEST_CASE("any text makes a document that parsers accept") {
  const std::string xml = to_junit(nasty_report(), false);
  if (has("xmllint")) {
    const TemporaryFolder folder;
    const std::string file = folder.write("report.xml", xml);
    CHECK(std::system(("xmllint --noout " + quoted(file) + " 2>/dev/null").c_str()) == 0);
  }
  if (!has("python3")) {
    MESSAGE("skipped: python3 is not here to parse the report");
    return;
  }
  CHECK(
      ask(xml,
          "print(root.tag, root.get('tests'), root.get('failures'), root.get('errors'), root.get('skipped'), "
          "root.get('time'))") == "testsuites 8 1 3 1 1.500000\n");
  CHECK(ask(xml, "print([s.get('name') for s in root])") == "['byte_gpt', 'op <a>', 'op b']\n");
  CHECK(ask(xml, "print([c.get('name') for c in root[2]][1:])") ==
        "['op/a&b/1/\"quoted\"', 'op/a&b/3/\"quoted\"', 'op/a&b/5/\"quoted\"']\n");
  CHECK(ask(xml, "print(ascii(root[2].find('testcase/failure').get('message')))")
            .find(R"(a < b & c > d "e" \'f\' ]]> [31m\n\ttab \ufffd\ufffd)") == 1);
  CHECK(ask(xml,
            "print(root[2].find('testcase/failure').get('type'), root[2].find('testcase/failure').text)") ==
        "fail replay: zeroproof replay 'a b' --text \"x\"\n");
  CHECK(ask(xml, "print(sorted({c.tag for s in root for t in s.findall('testcase') for c in t}))") ==
        "['error', 'failure', 'skipped', 'system-out']\n");
  CHECK(ask(xml,
            "print({p.get('name'): p.get('value') for p in "
            "root[0].find('properties')}['zeroproof.compiler'])") == "g++ <\"12\"> & 'more'\n");
  CHECK(ask(xml, "print([s.find('properties') is not None for s in root])") == "[True, True, True]\n");
  CHECK(ask(xml, "print(root[1][1].get('time'), root[1].get('time'))") == "0.250000 1.000000\n");
}

TEST_CASE("strict counts mistrusted cases as failures") {
  const RunReport report = nasty_report();
  CHECK(to_junit(report, false).find("failures=\"1\"") != std::string::npos);
  CHECK(to_junit(report, true).find("failures=\"2\"") != std::string::npos);
}

TEST_CASE("the command line writes it") {
  const TemporaryFolder folder;
  const std::string file = folder.file("new folder/junit,1.xml");
  const CliResult result =
      run_cli("verify 'op/unscale/host/x86-64/*' --report " + quoted("text,junit:" + file));
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("report: " + file) != std::string::npos);
  const std::string xml = read_file(file);
  CHECK(xml.find("tests=\"7\" failures=\"0\" errors=\"0\" skipped=\"0\"") != std::string::npos);
  if (has("python3")) CHECK(ask(xml, "print(len(root), root[0].get('name'))") == "1 unscale\n");
  const CliResult unwritable = run_cli("verify op/unscale --report junit:/dev/null/x.xml");
  CHECK(unwritable.exit_code == 2);
  CHECK(unwritable.err.find("cannot be written") != std::string::npos);
  CHECK(run_cli("verify op/unscale --report junit:").exit_code == 2);
}
