// Device memory that is on no ledger.

#include <doctest.h>

#include <atomic>
#include <mutex>

#include "cuda/device/sim/device_memory.hpp"
#include "cuda/device/sim/work_queue.hpp"
#include "tests/verification/tools/plan/device/device_account.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

/// Device memory of two ranks that is on no ledger.
std::int64_t bytes_off_the_ledgers(int stage, GradSum sum, GradsArrive leaves, std::int64_t rows) {
  std::int64_t off = 0;
  std::atomic<std::int64_t> counted = 0;
  DeviceRun device;
  device.form = DeviceForm::graphs;
  device.run.grid.ranks = 2;
  device.run.leaves = leaves;
  device.run.bucket_numel = 16 * 1024;
  device.run.tensors = {{{"a", {rows, 1024}}, {"b", {rows, 1000}}, {"c", {7}}}, {-1, -1, -1}};
  device.run.setup.stage = stage;
  device.run.setup.grad_sum = sum;
  device.run.setup.micro_batches = 4;
  device.run.setup.grad_dtype = DType::bf16;
  device.run.setup.transport = nccl_if_built;
  device.at_end = [&](const GridPlace& place, const MemoryUse& use) {
    counted += use.total_now;
    place.comm->barrier();
    if (place.rank == 0) {
      const std::lock_guard lock(cuda::sim::device_mutex());
      off = cuda::sim::DeviceMemory::instance().bytes_in_use() - counted;
    }
    place.comm->barrier();
  };
  check_device_account(device);
  return off;
}

}  // namespace

TEST_CASE("device ledger: memory outside is tables, at most a byte for 8 elements of a shard") {
  for (const GradSum sum : {GradSum::tree, GradSum::binned, GradSum::native}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const GradsArrive leaves : {GradsArrive::whole, GradsArrive::by_group}) {
        CAPTURE(name(sum));
        CAPTURE(stage);
        const std::int64_t small = bytes_off_the_ledgers(stage, sum, leaves, 16);
        const std::int64_t large = bytes_off_the_ledgers(stage, sum, leaves, 80);
        const std::int64_t shards = stage == 0 ? 2 : 1;  // with at least one element
        const std::int64_t more_numel = shards * (80 - 16) * 2024;
        CHECK(small > 0);
        CHECK(large - small <= more_numel / 8);
      }
    }
  }
}
