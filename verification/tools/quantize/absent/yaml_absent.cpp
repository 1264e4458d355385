// Replaces yaml.cpp where there is no YAML library: everything else is built, and the error names
// the library.

#include "common/base/error.hpp"
#include "verification/tools/quantize/yaml.hpp"

namespace zeroproof {

bool reads_yaml() { return false; }

YamlNode parse_yaml(std::string_view text, const std::string& file) {
  check_yaml_text(text, file);
  fail(ErrorCode::unavailable, file + " cannot be read",
       "this program was built without the YAML library yaml-cpp",
       "install libyaml-cpp-dev and build again with ZP_YAML=ON");
}

}  // namespace zeroproof
