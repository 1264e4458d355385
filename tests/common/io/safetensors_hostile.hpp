#pragma once
// Files no reader may accept. Each has a name, and a phrase its refusal must contain.

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

std::vector<HostileCase> hostile_lengths();  ///< the 8 bytes in front, and files cut short
std::vector<HostileCase> hostile_json();     ///< text that is not the JSON of a header
std::vector<HostileCase> hostile_tensors();  ///< JSON whose tensors cannot be
std::vector<HostileCase>
hostile_sizes();  ///< legal in form, made to cost memory or time; up to 52 MB each

inline std::vector<HostileCase> small_hostile_cases() {
  std::vector<HostileCase> all = hostile_lengths();
  for (const auto& more : {hostile_json(), hostile_tensors()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace zeroproof::tests
