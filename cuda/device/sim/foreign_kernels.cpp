#include "cuda/device/sim/foreign_kernels.hpp"

#include <memory>
#include <mutex>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/device/runtime/stream.hpp"
#include "cuda/device/sim/current.hpp"

namespace zeroproof::cuda::device {

void* native_stream() {
  return const_cast<std::shared_ptr<sim::WorkQueue>*>(&sim::current_queue());
}

}  // namespace zeroproof::cuda::device

namespace sim = zeroproof::cuda::sim;

const sim::Index* zeroproof_sim_index(std::int32_t which) {
  switch (which) {
    case 0:
      return &sim::threadIdx;
    case 1:
      return &sim::blockIdx;
    case 2:
      return &sim::blockDim;
    default:
      return &sim::gridDim;
  }
}

void zeroproof_sim_barrier(std::int32_t line) { sim::wait_for_block(line); }

std::int32_t zeroproof_sim_enqueue(void* stream, std::int32_t grid, std::int32_t block,
                                   void (*thread)(void*), void (*release)(void*), void* arguments) {
  const std::shared_ptr<void> kept(arguments, release);
  try {
    sim::check_launch(grid, block);
  } catch (const zeroproof::Error&) {
    return -1;  // no exception may pass through foreign code
  }
  const std::lock_guard lock(sim::device_mutex());
  (*static_cast<std::shared_ptr<sim::WorkQueue>*>(stream))
      ->push({[grid, block, thread, kept] { sim::run(grid, block, [&] { thread(kept.get()); }); },
              {}});
  return 0;
}
