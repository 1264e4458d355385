// zeroproof-bench-device: kernels and whole steps on a device, as fractions of what its memory does in the same run.

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include "common/base/error.hpp"
#include "cuda/device/runtime/device.hpp"
#include "verification/bench/command_line.hpp"
#include "verification/bench/device/report.hpp"
#include "verification/bench/device/suite.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification::bench;

void check_record(const std::ofstream& file, const DeviceOptions& options) {
  ZP_CHECK(file.good(), ErrorCode::io, options.json + " could not be written", "the record would be lost",
           "name a file in a folder that exists and is yours");
}

/// A group that the device has no room for does not end the others.
void add_group(DeviceReport& report, const std::string& what, const std::function<Group()>& measure) {
  say(what);
  try {
    report.groups.push_back(measure());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unavailable) throw;
    report.groups.push_back({what, {}, {}, error.what()});
  }
}

void measure_all(DeviceReport& report) {
  const DeviceOptions& options = report.options;
  const int rounds = options.rounds;
  const auto elements = [](std::int64_t numel) { return ", " + std::to_string(numel) + " elements"; };
  for (const std::int64_t numel : options.numel) {
    if (options.wants("kernels"))
      add_group(report, "kernels" + elements(numel),
                [&] { return measure_kernels(numel, rounds, report.checks); });
    if (options.wants("steps"))
      add_group(report, "steps" + elements(numel),
                [&] { return measure_steps(numel, rounds, report.checks); });
  }
  if (options.wants("small")) {
    add_group(report, "a small step" + elements(options.small_numel),
              [&] { return measure_small_step(options.small_numel, rounds); });
  }
  for (const int ranks : options.ranks) {
    if (!options.wants("ranks")) break;
    add_group(report, std::to_string(ranks) + " ranks" + elements(options.rank_numel),
              [&] { return measure_ranks(options.rank_numel, ranks, rounds); });
  }
}

int run(const DeviceOptions& options) {
  // Ranks that share a device have more streams than the 8 queues that CUDA makes of them unless told otherwise, and in
  // one queue the communication of a rank would wait for the backward pass of another.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  const cuda::device::DeviceInfo& device = cuda::device::device_info();
  ZP_CHECK(device.answers, ErrorCode::unavailable, "nothing was measured: no device answers", device.detail,
           "run this where there is a GPU");
  std::ofstream record;
  if (!options.json.empty()) {
    record.open(options.json, std::ios::binary);
    check_record(record, options);  // before the long part
  }
  DeviceReport report;
  report.options = options;
  report.machine = this_machine();
  report.device = device.detail;
  say("bits");
  report.checks = check_steps();
  measure_all(report);
  std::fputs(to_text(report).c_str(), stdout);
  if (record.is_open()) {
    record << to_json(report) << std::flush;
    check_record(record, options);
  }
  return report.ok() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return exit_status("zeroproof-bench-device", [&] {
    int exit_code = 0;
    const std::optional<DeviceOptions> options = parse_device_options(argc, argv, exit_code);
    return options ? run(*options) : exit_code;
  });
}
