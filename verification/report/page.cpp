#include "verification/report/page.hpp"

namespace zeroproof::verification {

std::string filled_page(std::string_view page, const std::map<std::string, std::string>& parts) {
  std::string out;
  for (std::size_t begin = page.find("{{"); begin != page.npos; begin = page.find("{{")) {
    const std::size_t end = page.find("}}", begin);
    out += page.substr(0, begin);
    out += parts.at(std::string(page.substr(begin + 2, end - begin - 2)));
    page.remove_prefix(end + 2);
  }
  return out.append(page);
}

std::string script_json(const Json& value) {
  std::string out;
  for (const char c : value.dump()) {
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else if (c == '&') {
      out += "\\u0026";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace zeroproof::verification
