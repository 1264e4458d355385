// Predicted bytes and messages of a step against those of devices, to 0 bytes: sent by NCCL's
// transport or by copies, sent over the host, and on a rank's ledger.

#include <doctest.h>

#include <vector>

#include "tests/verification/tools/plan/accounting_settings.hpp"
#include "tests/verification/tools/plan/device/device_account.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

constexpr DeviceForm forms[] = {DeviceForm::phases, DeviceForm::fused_phases, DeviceForm::enqueued,
                                DeviceForm::graphs};
constexpr LayoutKind layouts[] = {LayoutKind::contract,       LayoutKind::megatron,
                                  LayoutKind::deepspeed_flat, LayoutKind::deepspeed_param,
                                  LayoutKind::fsdp2,          LayoutKind::greedy};

/// Leaves and settings that are not looped over.
void vary_on_device(DeviceRun& device, Shuffle& rest) {
  AccountedRun& run = device.run;
  rest.below(2) == 0 ? vary(run, rest) : vary_layered(run, rest);
  device.form = rest.one_of(forms);
}

/// Every stage, layout and order in these worlds, with random values for the other settings.
void check_worlds(const std::vector<int>& worlds) {
  Shuffle rest;
  for (const int ranks : worlds) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const LayoutKind layout : layouts) {
        for (const MicroBatchOrder order :
             {MicroBatchOrder::contiguous, MicroBatchOrder::strided}) {
          DeviceRun device;
          device.run.grid.ranks = ranks;
          device.run.layout = layout;
          device.run.bucket_numel = rest.one_of({1024, 4096, 1 << 20});
          device.run.setup.stage = stage;
          device.run.setup.order = order;
          device.run.setup.micro_batches = rest.one_of({1, 3, 7, 8});
          vary_on_device(device, rest);
          device.run.setup.transport =
              rest.one_of({nccl_if_built, nccl_if_built, Transport::copies});
          check_device_account(device);
        }
      }
    }
  }
  CHECK(complaints() == "");
}

/// Every stage and sum on these grids, with random values for the other settings.
void check_grids(const std::vector<Grid>& grids) {
  Shuffle rest;
  for (const Grid& grid : grids) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const GradSum sum : {GradSum::tree, GradSum::binned, GradSum::native}) {
        DeviceRun device;
        device.run.grid = grid;
        device.run.layout = rest.one_of(grid_layouts);
        device.run.setup.stage = stage;
        device.run.setup.order =
            rest.one_of({MicroBatchOrder::contiguous, MicroBatchOrder::strided});
        device.run.setup.micro_batches = rest.one_of({1, 3, 5});
        vary_on_device(device, rest);
        device.run.setup.grad_sum = sum;
        device.run.setup.transport = rest.one_of({nccl_if_built, Transport::copies});
        check_device_account(device);
      }
    }
  }
  CHECK(complaints() == "");
}

}  // namespace

TEST_CASE("device accounting: a small world and a grid") {
  check_worlds({3});
  check_grids({{2, 2, 2, 2}});
}

TEST_CASE("nightly: device accounting: worlds, stages, layouts, orders, both kinds of transport") {
  check_worlds({1, 2, 3, 4, 8});
}

TEST_CASE("nightly: device accounting: instances, context and tensor parallelism") {
  check_grids({{2, 1, 1, 1},
               {2, 3, 1, 1},
               {3, 2, 1, 1},
               {1, 4, 1, 2},
               {1, 2, 2, 1},
               {1, 1, 4, 1},
               {2, 2, 2, 2},
               {1, 8, 1, 4}});
}
