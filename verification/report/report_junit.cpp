// JUnit XML as CI systems read it: the elements and attributes that Jenkins knows.

#include <map>

#include "verification/case/run_report.hpp"
#include "verification/program/contract_version.hpp"
#include "verification/report/format.hpp"
#include "verification/report/report_failures.hpp"

namespace zeroproof::verification {
namespace {

/// Length of the UTF-8 sequence that begins here and that XML 1.0 may hold; 0 if there is none.
std::size_t character_length(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  std::uint32_t code = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80) return 0;
    code = code << 6 | (byte(at + i) & 0x3FU);
  }
  constexpr std::array<std::uint32_t, 5> least = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  const bool allowed =
      code >= least[length] && !surrogate && code <= 0x10FFFF && code != 0xFFFE && code != 0xFFFF;
  return allowed ? length : 0;
}

/// Text for XML: markup escaped, control characters left out, bytes that are no UTF-8 replaced. In attributes line
/// breaks survive normalisation only as references.
enum class Within : std::uint8_t { attribute, element };

std::string escaped(const std::string& text, Within within = Within::attribute) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character_length(text, i);
    const auto c = static_cast<unsigned char>(text[i]);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++i;
      continue;
    }
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&apos;";
    } else if (c == '\n' && within == Within::element) {
      out += text[i];
    } else if (c == '\n' || c == '\t' || c == '\r') {
      out += "&#" + std::to_string(c) + ";";
    } else if (c >= 0x20 && c != 0x7F) {
      out += text.substr(i, length);
    }
    i += length;
  }
  return out;
}

struct Counts {
  int tests = 0, failures = 0, errors = 0, skipped = 0;
  double seconds = 0;
};

const char* element_of(Status status, bool strict) {
  switch (status) {
    case Status::pass:
      return "";
    case Status::mistrusted:
      return strict ? "failure" : "";
    case Status::fail:
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

/// What a group and the whole document say of themselves.
std::string attributes(const Counts& c) {
  return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.6f}\"", c.tests, c.failures,
                     c.errors, c.seconds);
}

std::string test_case(const Result& test, bool strict) {
  std::string out = fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.6f}\"",
                                escaped(test.group), escaped(test.id), test.seconds);
  const std::string element = element_of(test.status, strict);
  if (test.status == Status::pass) return out + "/>\n";
  const std::string message = escaped(test.reason);
  if (element.empty()) {
    return out + ">\n      <system-out>mistrusted: " + message + "</system-out>\n    </testcase>\n";
  }
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
