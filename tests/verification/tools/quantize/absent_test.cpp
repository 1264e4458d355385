// A build without a YAML library: all commands work except reading YAML, which prints one sentence.

#include <doctest.h>

#include "common/base/error.hpp"
#include "verification/tools/quantize/quantization_config.hpp"

namespace absent_test {

TEST_CASE("without the library, files are refused and the library is named") {
  using namespace zeroproof;
  CHECK_FALSE(reads_yaml());
  try {
    parse_quantization("quant_cfg: []\n", "f.yaml");
    FAIL("it was read");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::unavailable);  // exit 3
    CHECK(std::string(error.what()).find("install libyaml-cpp-dev") != std::string::npos);
  }
  CHECK_THROWS_WITH_AS(parse_quantization("\t", "f.yaml"), doctest::Contains("f.yaml"), Error);
}

}  // namespace absent_test
