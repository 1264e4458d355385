// calibration_tool: on every line of standard input a method, a number and counts; prints the amax of them, or of each
// value. "percentile 99.9 c0 c1 ..", "entropy 8 c0 c1 ..": with bins of width 1; "integer BITS AMAX x0 x1 .." and
// "e4m3 0 AMAX x0 x1 ..": bits of what fake quantization makes of fp32 values that are given as bits.

#include <bit>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <vector>

#include "cuda/host/calibration.hpp"
#include "cuda/host/fake_quantize.hpp"

namespace {

using namespace zeroproof;

template <class T>
std::vector<T> rest_of(std::istringstream& line) {
  std::vector<T> values;
  for (T value; line >> value;) values.push_back(value);
  return values;
}

void faked(const std::string& method, int bits, std::istringstream& line) {
  std::uint32_t amax = 0;
  line >> amax;
  std::vector<float> values;
  for (const std::uint32_t word : rest_of<std::uint32_t>(line)) values.push_back(std::bit_cast<float>(word));
  FakeQuantization options{one_block(1, static_cast<std::int64_t>(values.size()))};
  if (method == "integer") options.bits = bits;
  if (method == "e4m3") options.format = FakeFormat::e4m3;
  cuda::host::fake_quantize({}, options, 0, values, {&amax, 1}, values);
  for (const float value : values) std::printf("%u ", std::bit_cast<std::uint32_t>(value));
}

}  // namespace

int main() {
  for (std::string text; std::getline(std::cin, text);) {
    std::istringstream line(text);
    std::string method;
    double number = 0;
    line >> method >> number;
    if (method == "percentile") {
      std::printf("%.9g", cuda::host::percentile_amax(rest_of<std::uint64_t>(line), 1, number));
    } else if (method == "entropy") {
      std::printf("%.9g",
                  cuda::host::entropy_amax({}, rest_of<std::uint64_t>(line), 1, static_cast<int>(number)));
    } else {
      faked(method, static_cast<int>(number), line);
    }
    std::printf("\n");
  }
  return 0;
}
