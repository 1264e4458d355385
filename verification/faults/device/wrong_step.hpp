#pragma once
// Base of wrong steps on a device.

#include <functional>
#include <memory>
#include <utility>

#include "cuda/optimizer/device_optimizer.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {

using MakeDeviceStep =
    std::function<std::unique_ptr<cuda::DeviceStep>(cuda::RankShard&, const cuda::CommGroups&)>;

// Each returns null if the fault is in another file.
MakeDeviceStep wrong_record(std::string_view fault, const FaultContext& context);
MakeDeviceStep wrong_skip(std::string_view fault, const FaultContext& context);
MakeDeviceStep wrong_numbers(std::string_view fault, const FaultContext& context);
MakeDeviceStep wrong_replay(std::string_view fault, const FaultContext& context);
std::unique_ptr<DistributedOptimizer> wrong_streams(std::string_view fault,
                                                    const FaultContext& context);
std::unique_ptr<DistributedOptimizer> wrong_lane(std::string_view fault,
                                                 const FaultContext& context);
std::unique_ptr<DistributedOptimizer> wrong_host(std::string_view fault,
                                                 const FaultContext& context);

template <class Step>
MakeDeviceStep device_step_of(const FaultContext& context) {
  return [fused = context.fused](cuda::RankShard& shard, const cuda::CommGroups& transport) {
    return std::make_unique<Step>(shard, transport, fused);
  };
}

struct DeviceStepRow {
  std::string_view fault;
  MakeDeviceStep (*make)(const FaultContext& context);
};

/// The step of the row with that fault; null if there is none.
inline MakeDeviceStep step_in(Span<const DeviceStepRow> rows, std::string_view fault,
                              const FaultContext& context) {
  for (const DeviceStepRow& row : rows) {
    if (row.fault == fault) return row.make(context);
  }
  return nullptr;
}

/// An optimizer with replaced parts; Optimizer: DeviceOptimizer or a derived class.
template <class Optimizer = cuda::DeviceOptimizer>
std::unique_ptr<DistributedOptimizer> on_device(const FaultContext& context,
                                                const cuda::DeviceOptimizer::Makers& makers) {
  return std::make_unique<Optimizer>(context.setup, context.fused, context.graphs, makers);
}

}  // namespace zeroproof::verification
