#pragma once

#include <string>
#include <vector>

#include "verification/bench/device/device_rows.hpp"
#include "verification/bench/device/options.hpp"
#include "verification/bench/measure/machine.hpp"

namespace zeroproof::verification::bench {

struct DeviceReport {
  DeviceOptions options;
  Machine machine;
  std::string device;  ///< as the runtime calls it
  std::vector<Group> groups;
  std::vector<Check> checks;

  /// Times of a simulated device are those of the host, and nobody judges them.
  bool simulated() const { return device.rfind("simulated", 0) == 0; }
  bool ok() const;
};

/// The tables, at most 100 columns wide. Goals are judged by ratios within rounds; a missed one is no error.
std::string to_text(const DeviceReport& report);

/// Schema "zeroproof-bench-device/1".
std::string to_json(const DeviceReport& report);

}  // namespace zeroproof::verification::bench
