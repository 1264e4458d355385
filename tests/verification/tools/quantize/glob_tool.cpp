// Reads pattern, line feed, text, line feed, and so on; writes a line with a 1 or a 0 for every pair.

#include <cstdio>
#include <iostream>
#include <string>

#include "verification/tools/quantize/glob.hpp"

int main() {
  std::string pattern, text;
  while (std::getline(std::cin, pattern) && std::getline(std::cin, text)) {
    std::puts(zeroproof::Glob(pattern).matches(text) ? "1" : "0");
  }
  return 0;
}
