#include "verification/bench/device/options.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>

#include "common/base/error.hpp"
#include "common/layout/flat_layout.hpp"
#include "verification/bench/command_line.hpp"

namespace zeroproof::verification::bench {
namespace {

void require_chunks(const char* flag, std::int64_t numel) {
  ZP_CHECK(numel % layout_alignment == 0, ErrorCode::invalid_argument,
           std::string(flag) + " is " + std::to_string(numel),
           "what rows are compared with moves whole chunks of 1024 elements", "choose a multiple of 1024");
}

}  // namespace

bool DeviceOptions::wants(const std::string& which) const {
  return std::find(rows.begin(), rows.end(), which) != rows.end();
}

std::optional<DeviceOptions> parse_device_options(int argc, char** argv, int& exit_code) {
  DeviceOptions options;
  CLI::App app(
      "zeroproof-bench-device measures kernels and whole steps on a device against what its memory does in "
      "the same "
      "run");
  app.set_version_flag("--version", "zeroproof-bench-device " ZP_VERSION);
  const auto numel = CLI::Range(std::int64_t{layout_alignment}, std::int64_t{1} << 36);
  app.add_option("--rounds", options.rounds, "times every row is measured")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--numel", options.numel, "elements of kernels and steps, one table for each")
      ->delimiter(',')
      ->check(numel)
      ->capture_default_str();
  app.add_option("--small-numel", options.small_numel, "elements of the step whose host time is measured")
      ->check(numel)
      ->capture_default_str();
  app.add_option("--rank-numel", options.rank_numel, "elements of the model that ranks share")
      ->check(numel)
      ->capture_default_str();
  app.add_option("--ranks", options.ranks, "ranks that share the device, one table for each")
      ->delimiter(',')
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  app.add_option("--rows", options.rows, "which: kernels, steps, small (a step that is small), ranks")
      ->delimiter(',')
      ->check(CLI::IsMember({"kernels", "steps", "small", "ranks"}))
      ->capture_default_str();
  app.add_option("--json", options.json, "write the record to this file");
  if (!understood(app, "zeroproof-bench-device", argc, argv, exit_code)) return std::nullopt;
  for (const std::int64_t one : options.numel) require_chunks("--numel", one);
  require_chunks("--small-numel", options.small_numel);
  require_chunks("--rank-numel", options.rank_numel);
  return options;
}

}  // namespace zeroproof::verification::bench
