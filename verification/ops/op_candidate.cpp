#include "verification/ops/op_candidate.hpp"

#include <algorithm>
#include <array>

#include "cuda/device/runtime/device.hpp"
#include "cuda/host/base/isa.hpp"
#include "cuda/kernel_table.hpp"
#include "verification/cli/program/plant.hpp"

namespace zeroproof::verification {
namespace {

class HostCandidate final : public OpCandidate {
 public:
  explicit HostCandidate(Isa isa) : isa_(isa), name_(cuda::host::name(isa)) {}

  std::string id() const override { return "host/" + name_; }
  std::string side() const override { return "host " + name_; }
  Implementation kind() const override { return Implementation::host; }
  bool has(const Op& op) const override { return static_cast<bool>(op.host); }
  std::string obstacle(const Op&) const override {
    return cuda::host::isa_supported(isa_) ? "" : "this processor does not run " + name_;
  }

  OpFunction function(const Op& op, const std::string& fault) const override {
    const bool planted = !fault.empty() && op.host_of;
    OpFunction implementation =
        planted ? op.host_of(plant_fault(fault, cuda::host_ops())) : op.host;
    if (const OpFunction wrong =
            fault.empty() || planted ? OpFunction() : plant_fault_in(fault, op.name)) {
      implementation = wrong;
    }
    return [implementation, isa = isa_](OpCall& call) {
      call.exec.isa = isa;
      implementation(call);
    };
  }

 private:
  Isa isa_;
  std::string name_;
};

class DeviceCandidate final : public OpCandidate {
 public:
  std::string id() const override { return "device/cuda"; }
  std::string side() const override { return "device"; }
  Implementation kind() const override { return Implementation::device; }
  bool has(const Op& op) const override { return static_cast<bool>(op.device); }
  std::string obstacle(const Op&) const override {
    const cuda::device::DeviceInfo& info = cuda::device::device_info();
    return info.answers ? "" : "no device answers: " + info.detail;
  }
  OpFunction function(const Op& op, const std::string&) const override { return op.device; }
};

const std::array<HostCandidate, 3>& host_candidates() {
  static const std::array<HostCandidate, 3> all = {
      HostCandidate(Isa::x86_64), HostCandidate(Isa::x86_64_v3), HostCandidate(Isa::x86_64_v4)};
  return all;
}

}  // namespace

const OpCandidate& host_candidate(Isa isa) {
  const std::string id = "host/" + std::string(cuda::host::name(isa));
  return *std::find_if(host_candidates().begin(), host_candidates().end(),
                       [&](const HostCandidate& one) { return one.id() == id; });
}

const OpCandidate& device_candidate() {
  static const DeviceCandidate device;
  return device;
}

const std::vector<const OpCandidate*>& own_candidates() {
  static const std::vector<const OpCandidate*> all = [] {
    std::vector<const OpCandidate*> candidates;
    for (const HostCandidate& one : host_candidates()) candidates.push_back(&one);
    candidates.push_back(&device_candidate());
    return candidates;
  }();
  return all;
}

}  // namespace zeroproof::verification
