// JUnit XML for CI systems: the elements and attributes supported by Jenkins.

#include <map>

#include "verification/cases/run_report.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/report/format.hpp"
#include "verification/report/markup.hpp"
#include "verification/report/report_failures.hpp"

namespace zeroproof::verification {
namespace {

struct Counts {
  int tests = 0, failures = 0, errors = 0, skipped = 0;
  double seconds = 0;
};

const char* element_of(Status status, bool strict) {
  switch (status) {
    case Status::pass:
      return "";
    case Status::mistrusted:
      return strict ? "failure" : "skipped";  // viewers count as passed what is in no element
    case Status::fail:
    case Status::tampered:
      return "failure";
    case Status::skipped:
      return "skipped";
    default:
      return "error";
  }
}

void count(Counts& counts, const Result& test, bool strict) {
  const std::string element = element_of(test.status, strict);
  ++counts.tests;
  counts.failures += element == "failure" ? 1 : 0;
  counts.errors += element == "error" ? 1 : 0;
  counts.skipped += element == "skipped" ? 1 : 0;
  counts.seconds += test.seconds;
}

/// The attributes of a group and of the document.
std::string attributes(const Counts& c) {
  return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.6f}\"", c.tests,
                     c.failures, c.errors, c.seconds);
}

std::string test_case(const Result& test, bool strict) {
  std::string out = fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.6f}\"",
                                escaped(test.group), escaped(test.id), test.seconds);
  const std::string element = element_of(test.status, strict);
  if (test.status == Status::pass) return out + "/>\n";
  const std::string message =
      escaped((test.status == Status::mistrusted ? "mistrusted: " : "") + test.reason);
  out += ">\n      <" + element + " message=\"" + message + "\"";
  if (element == "skipped") return out + "/>\n    </testcase>\n";
  return out + fmt::format(" type=\"{}\">\n{}      </{}>\n    </testcase>\n", name(test.status),
                           escaped(details_of(test), Within::element), element);
}

std::string properties(const RunReport& report) {
  std::string out = "    <properties>\n";
  const auto add = [&](const std::string& key, const std::string& value) {
    out += "      <property name=\"" + key + "\" value=\"" + escaped(value) + "\"/>\n";
  };
  add("zeroproof.version", ZP_VERSION);
  add("zeroproof.contract", std::to_string(contract_version));
  for (const Capability& capability : report.capabilities) {
    if (capability.name == "compiler" || capability.name == "instruction sets" ||
        capability.name == "cuda device") {
      std::string key = "zeroproof." + capability.name;
      for (char& c : key) c = c == ' ' ? '_' : c;
      add(key, capability.detail);
    }
  }
  return out + "    </properties>\n";
}

}  // namespace

std::string to_junit(const RunReport& report, bool strict) {
  std::vector<std::string> order;
  std::map<std::string, std::pair<Counts, std::string>> suites;
  Counts total;
  for (const Result& test : report.results) {
    if (suites.count(test.group) == 0) order.push_back(test.group);
    auto& [counts, text] = suites[test.group];
    count(counts, test, strict);
    count(total, test, strict);
    text += test_case(test, strict);
  }
  total.seconds = report.seconds;
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"zeroproof\" " +
                    attributes(total) + ">\n";
  for (const std::string& suite : order) {
    out += fmt::format("  <testsuite name=\"{}\" {} skipped=\"{}\">\n", escaped(suite),
                       attributes(suites[suite].first), suites[suite].first.skipped);
    out += properties(report) + suites[suite].second + "  </testsuite>\n";
  }
  return out + "</testsuites>\n";
}

}  // namespace zeroproof::verification
