#pragma once

#include <array>
#include <memory>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/counted_communicator.hpp"
#include "cuda/comm/device_copies.hpp"
#include "cuda/comm/exchange/comm_groups.hpp"
#include "cuda/comm/nccl_communicator.hpp"
#include "cuda/comm/nccl_library.hpp"
#include "cuda/comm/nccl_watch.hpp"

namespace zeroproof::cuda {

/// Device communicators over the groups of a setup. Collective over each of them.
class DeviceCommGroups {
 public:
  /// Objects referenced by the setup must outlive this. Errors: those of make_device_copies, or of
  /// make_nccl_communicator and its library.
  explicit DeviceCommGroups(const OptimizerSetup& setup)
      : kind_(setup.transport),
        comm_(over(setup.comm, setup.transport)),
        replicas_(over(setup.replicas, setup.transport)),
        tp_(over(setup.tp, setup.transport)) {}

  CommGroups comm_groups() const { return {comm_.get(), replicas_.get(), tp_.get()}; }

  /// For waits that the device may never finish by itself; empty if every wait ends.
  device::MakeWatch watch() const {
    if (kind_ != Transport::nccl) return {};
    return [comm_groups = comm_groups()]() -> std::function<void()> {
      return NcclWatch({comm_groups.comm, comm_groups.replicas, comm_groups.tp},
                       comm_groups.comm->time_limit());
    };
  }

  /// Ends for good, on this rank's device, all work that waits for other ranks.
  void stop() const {
    for (const std::unique_ptr<Communicator>* const wire : {&comm_, &replicas_, &tp_}) {
      if (auto* const watched = dynamic_cast<WatchedCommunicator*>(wire->get())) watched->stop();
    }
  }

  /// Whether the host takes no part in transfers, so that a graph can capture them.
  bool capturable() const { return kind_ == Transport::nccl; }

  /// Traffic of each communicator, in this order; empty for a missing one.
  std::array<Traffic, 3> traffic() const { return {moved(comm_), moved(replicas_), moved(tp_)}; }

 private:
  static std::unique_ptr<Communicator> over(Communicator* control, Transport kind) {
    if (control == nullptr) return nullptr;
    if (kind == Transport::copies) return make_device_copies(*control);
    return make_nccl_communicator(*control, shared_nccl(), control->time_limit() / 2);
  }

  static Traffic moved(const std::unique_ptr<Communicator>& wire) {
    const auto* const counted = dynamic_cast<const CountedCommunicator*>(wire.get());
    return counted == nullptr ? Traffic{} : counted->traffic();
  }

  const Transport kind_;
  std::unique_ptr<Communicator> comm_, replicas_, tp_;
};

}  // namespace zeroproof::cuda
