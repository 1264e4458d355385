#pragma once
// Input and output of the tools of the Python tests: a line of words, fp32 values as the numbers of
// their bits.

#include <bit>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/span.hpp"

namespace zeroproof::verification {

using ToolLine = std::istringstream;

template <class T>
T next(ToolLine& line) {
  T value{};
  line >> value;
  return value;
}

template <class T>
std::vector<T> rest_of(ToolLine& line) {
  std::vector<T> values;
  for (T value; line >> value;) values.push_back(value);
  return values;
}

inline float next_float(ToolLine& line) { return std::bit_cast<float>(next<std::uint32_t>(line)); }

inline std::vector<float> floats_of(ToolLine& line) {
  std::vector<float> values;
  for (const std::uint32_t word : rest_of<std::uint32_t>(line))
    values.push_back(std::bit_cast<float>(word));
  return values;
}

inline void print(Span<const float> values) {
  for (const float value : values) std::printf("%u ", std::bit_cast<std::uint32_t>(value));
}

/// Prints a line of results for every line of standard input, whose first word is a method. Returns
/// 1 at an unknown method.
inline int answer(const std::map<std::string, void (*)(ToolLine&)>& methods) {
  for (std::string text; std::getline(std::cin, text);) {
    ToolLine line(text);
    const auto method = methods.find(next<std::string>(line));
    if (method == methods.end()) return 1;
    method->second(line);
    std::printf("\n");
  }
  return 0;
}

}  // namespace zeroproof::verification
