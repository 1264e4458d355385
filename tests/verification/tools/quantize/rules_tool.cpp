// rules_tool FILE...: for each file a line with its rules as JSON, or with the sentence by which it is refused.

#include <cstdio>
#include <exception>
#include <string>

#include "verification/tools/quantize/quantization_config.hpp"

int main(int argc, char** argv) {
  using namespace zeroproof;
  for (int i = 1; i < argc; ++i) {
    Json line;
    try {
      const QuantizationConfig config = load_quantization(argv[i]);
      Json rules = Json::array();
      for (const QuantRule& rule : config.rules) {
        rules.push_back({{"name", rule.name},
                         {"pattern", rule.pattern},
                         {"config", rule.config},
                         {"enable", rule.enable ? Json(*rule.enable) : Json(nullptr)},
                         {"payload", rule.payload ? payload_json(*rule.payload) : Json(nullptr)}});
      }
      line["rules"] = rules;
    } catch (const std::exception& error) {
      line["refused"] = error.what();
    }
    std::puts(line.dump().c_str());
  }
  return 0;
}
