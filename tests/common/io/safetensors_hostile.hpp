#pragma once
// Invalid files. Each has a name, and a phrase that the error must contain.

#include <string>
#include <vector>

#include "common/io/safetensors/safetensors_types.hpp"

namespace zeroproof::tests {

struct HostileCase {
  std::string name;
  std::string bytes;
  std::string phrase;
  SafetensorsLimits limits = {};
};

std::vector<HostileCase> hostile_lengths();  ///< the 8 bytes in front, and truncated files
std::vector<HostileCase> hostile_json();     ///< text that is not the JSON of a header
std::vector<HostileCase> hostile_tensors();  ///< JSON with invalid tensors
std::vector<HostileCase>
hostile_sizes();  ///< valid in form, designed to cost memory or time; up to 52 MB each

inline std::vector<HostileCase> small_hostile_cases() {
  std::vector<HostileCase> all = hostile_lengths();
  for (const auto& more : {hostile_json(), hostile_tensors()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace zeroproof::tests
