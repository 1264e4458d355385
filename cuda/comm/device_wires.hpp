#pragma once

#include <array>
#include <memory>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/exchange/wires.hpp"
#include "cuda/comm/counted_wires.hpp"
#include "cuda/comm/device_copies.hpp"
#include "cuda/comm/nccl_communicator.hpp"
#include "cuda/comm/nccl_library.hpp"
#include "cuda/comm/nccl_watch.hpp"

namespace zeroproof::cuda {

/// Device communicators over the groups of a setup. Collective over each of them.
class DeviceWires {
 public:
  /// What the setup refers to outlives this. Errors: those of make_device_copies, or of make_nccl_communicator and its
  /// library.
  explicit DeviceWires(const OptimizerSetup& setup)
      : kind_(setup.wires),
        comm_(over(setup.comm, setup.wires)),
        replicas_(over(setup.replicas, setup.wires)),
        tp_(over(setup.tp, setup.wires)) {}

  Wires wires() const { return {comm_.get(), replicas_.get(), tp_.get()}; }

  /// For waits on which the device may never come back by itself; empty if every wait ends.
  device::MakeWatch watch() const {
    if (kind_ != WireKind::nccl) return {};
    return [wires = wires()]() -> std::function<void()> {
      return NcclWatch({wires.comm, wires.replicas, wires.tp}, wires.comm->time_limit());
    };
  }

  /// Ends on this rank's device what waits for other ranks, for good.
  void stop() const {
    for (const std::unique_ptr<Communicator>* const wire : {&comm_, &replicas_, &tp_}) {
      if (auto* const watched = dynamic_cast<WatchedWires*>(wire->get())) watched->stop();
    }
  }

  /// Whether the host has no part in what moves, so that it can be captured into a graph.
  bool capturable() const { return kind_ == WireKind::nccl; }

  /// What each of them has moved, in this order; nothing where there is none.
  std::array<Traffic, 3> traffic() const { return {moved(comm_), moved(replicas_), moved(tp_)}; }

 private:
  static std::unique_ptr<Communicator> over(Communicator* control, WireKind kind) {
    if (control == nullptr) return nullptr;
    if (kind == WireKind::copies) return make_device_copies(*control);
    return make_nccl_communicator(*control, shared_nccl(), control->time_limit() / 2);
  }

  static Traffic moved(const std::unique_ptr<Communicator>& wire) {
    const auto* const counted = dynamic_cast<const CountedWires*>(wire.get());
    return counted == nullptr ? Traffic{} : counted->traffic();
  }

  const WireKind kind_;
  std::unique_ptr<Communicator> comm_, replicas_, tp_;
};

}  // namespace zeroproof::cuda
