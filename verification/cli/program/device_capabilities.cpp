#include "verification/cli/program/device_capabilities.hpp"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "common/base/error.hpp"
#include "cuda/comm/nccl_library.hpp"
#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* sharing_variable = "NCCL_MULTI_RANK_GPU_ENABLE";

/// build/zeroproof-sim next to this program, if it was built.
std::string simulating_program() {
  std::string path(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return "";
  path.resize(length);
  path = path.substr(0, path.rfind('/') + 1) + "zeroproof-sim";
  return ::access(path.c_str(), X_OK) == 0 ? path : "";
}

/// In powers of 1024, with a digit behind the point.
std::string gib(std::int64_t num_bytes) {
  const std::int64_t tenths = std::llround(static_cast<double>(num_bytes) * 10 / 0x1p30);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

/// Requirements of a device that this machine lacks.
std::string missing_device() {
  const cuda::device::DeviceInfo& info = cuda::device::device_info();
  std::string text = info.detail;
  text += info.built ? "; it needs a working driver and a device of compute capability 8.0 or newer"
                     : "; build with ZP_CUDA=ON";
  const std::string simulates = simulating_program();
  return simulates.empty() ? text : text + "; " + simulates + " simulates one";
}

/// Ranks per device that NCCL permits.
std::string sharing(std::size_t devices, const std::string& version) {
  if (nccl_shares_devices(version, std::getenv(sharing_variable))) return "several per device";
  return "one per device, so up to " + std::to_string(devices) +
         "; more with --transport copies, or from NCCL 2.30 on with " + sharing_variable + "=1";
}

}  // namespace

bool nccl_shares_devices(const std::string& version, const char* variable) {
  int major = 0, minor = 0;
  if (variable == nullptr || std::string(variable) != "1") return false;
  if (std::sscanf(version.c_str(), "%d.%d", &major, &minor) != 2) return false;
  return major > 2 || (major == 2 && minor >= 30);
}

std::string nccl_obstacle(int ranks) {
  try {
    const cuda::NcclLibrary& nccl = cuda::shared_nccl();
    const int devices = cuda::device::num_devices();
    // With NCCL_HOSTID every rank declares a separate machine, whose device is not shared.
    if (ranks <= devices || std::getenv("NCCL_HOSTID") != nullptr) return "";
    if (nccl_shares_devices(nccl.version(), std::getenv(sharing_variable))) return "";
    return std::to_string(ranks) + " ranks, " + std::to_string(devices) +
           (devices == 1 ? " device" : " devices") + ", and NCCL " + nccl.version() +
           " accepts one rank per device, unless from 2.30 on " + sharing_variable + "=1 is set";
  } catch (const Error& error) {
    const std::string what = error.what();
    return what.substr(0, what.find(" ("));
  }
}

Capability device_line(std::size_t number, const cuda::device::ListedDevice& device) {
  std::string detail = device.name + ", " + gib(device.num_bytes) + ", compute capability " +
                       std::to_string(device.major) + "." + std::to_string(device.minor);
  if (!device.is_usable())
    detail += ": older than 8.0, refused; CUDA_VISIBLE_DEVICES can leave it out";
  return {"cuda device " + std::to_string(number), device.is_usable(), detail};
}

std::vector<Capability> device_capabilities() {
  std::vector<Capability> lines;
  const std::vector<cuda::device::ListedDevice> devices = cuda::device::listed_devices();
  for (std::size_t number = 0; number < devices.size(); ++number)
    lines.push_back(device_line(number, devices[number]));
  if (!device_answers()) lines.push_back({"cuda device", false, missing_device()});
  try {
    const std::string version = cuda::shared_nccl().version();
    lines.push_back({"nccl", true, cuda::describe_nccl()});
    if (device_answers()) lines.push_back({"nccl ranks", true, sharing(devices.size(), version)});
  } catch (const Error&) {
    lines.push_back({"nccl", false, cuda::describe_nccl()});
  }
  return lines;
}

}  // namespace zeroproof::verification
