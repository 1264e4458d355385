#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zeroproof::verification::bench {

struct DeviceOptions {
  int rounds = 15;
  std::vector<std::int64_t> numel = {std::int64_t{1} << 26,
                                     std::int64_t{1} << 30};  ///< one group of rows each
  std::int64_t small_numel = std::int64_t{1} << 20;           ///< of the step whose host time is measured
  std::int64_t rank_numel = std::int64_t{1} << 26;            ///< of a model that ranks share
  std::vector<int> ranks = {2, 4};                            ///< one group each
  std::vector<std::string> rows = {"kernels", "steps", "small", "ranks"};
  std::string json;  ///< file for the record, "" for none

  bool wants(const std::string& which) const;
};

/// Nothing if the program should end now, with `exit_code`. Errors: invalid_argument.
std::optional<DeviceOptions> parse_device_options(int argc, char** argv, int& exit_code);

}  // namespace zeroproof::verification::bench
