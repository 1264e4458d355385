#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace zeroproof::verification::bench {

struct Options {
  int rounds = 15;
  std::int64_t mib = 512;  ///< fp32 gradient, master and two moments together: 16 bytes per element
  int threads = 0;         ///< 0: as many as there are cores
  std::string json;        ///< file for the record, "" for none

  std::int64_t numel() const { return mib * (std::int64_t{1} << 20) / 16; }
};

/// Nothing if the program should end now, with `exit_code`.
std::optional<Options> parse_options(int argc, char** argv, int& exit_code);

}  // namespace zeroproof::verification::bench
