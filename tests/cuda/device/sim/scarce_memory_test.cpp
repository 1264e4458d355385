// Device memory that is exhausted while a state is loaded or a step is enqueued, and pinned memory
// that is refused: the message, no leaks, and continued use of the same rank with enough memory.

#include <doctest.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "cuda/device/sim/device_memory.hpp"
#include "cuda/device/sim/work_queue.hpp"
#include "tests/cuda/device/enqueued_support.hpp"

namespace scarce_memory_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using cuda::sim::ScarceMemory;

/// Limits memory while this exists.
class Scarce {
 public:
  explicit Scarce(const ScarceMemory& scarce) { set(scarce); }
  ~Scarce() { set({}); }
  Scarce(const Scarce&) = delete;
  Scarce& operator=(const Scarce&) = delete;

  static void set(const ScarceMemory& scarce) {
    const std::lock_guard lock(cuda::sim::device_mutex());
    cuda::sim::scarce_memory() = scarce;
  }
};

/// After all streams are done: streams without a waiter run during every other wait.
std::int64_t bytes_in_use() {
  cuda::device::Stream stream;
  const cuda::device::UseStream use(stream);
  for (int order = 0; order < 2; ++order) cuda::device::wait_for_stream();
  const std::lock_guard lock(cuda::sim::device_mutex());
  return cuda::sim::DeviceMemory::instance().bytes_in_use();
}

/// Message of the failure; empty without one.
std::optional<std::string> refused(const std::function<void()>& call) {
  try {
    call();
    return std::nullopt;
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::unavailable);
    return error.what();
  }
}

void load_and_step(EnqueuedRank& rank, GradSource& leaves, cuda::EnqueuedOptimizer& optimizer) {
  optimizer.load_state(rank.state());
  for (int step = 0; step < 3; ++step) optimizer.enqueue_step(leaves);
  optimizer.wait();
}

/// A separate rank that loads and makes steps. Returns the message if it failed.
std::optional<std::string> attempt(EnqueuedRank& rank, HostGrads& leaves,
                                   const ScarceMemory& memory) {
  const std::int64_t before = bytes_in_use();
  std::optional<std::string> said;
  {
    std::unique_ptr<cuda::EnqueuedOptimizer> optimizer;
    {
      const Scarce scarce(memory);
      said = refused([&] {
        optimizer = cuda::make_enqueued_optimizer(rank.setup, true, rank.with_graphs);
        load_and_step(rank, leaves, *optimizer);
      });
    }
    if (optimizer != nullptr) {  // there is enough memory again
      load_and_step(rank, leaves, *optimizer);
      rank.optimizer.swap(optimizer);
      rank.check_same_state();
      rank.optimizer.swap(optimizer);
    }
  }
  CHECK(bytes_in_use() == before);
  return said;
}

}  // namespace

TEST_CASE("simulated device: memory exhausted in the middle of a state or a step") {
  for (const bool graphs : {false, true}) {
    CAPTURE(graphs);
    EnqueuedRank rank(graphs);
    HostGrads leaves(rank, 3);
    rank.on_host->load_state(rank.state());
    for (int step = 0; step < 3; ++step) rank.on_host->step(leaves);
    const std::int64_t before = bytes_in_use();
    std::int64_t refusals = 0, with_class = 0, bytes = 0;
    while (const std::optional<std::string> said =
               attempt(rank, leaves, {before + bytes, ScarceMemory::plenty})) {
      CAPTURE(*said);
      CHECK(said->find(" bytes") != std::string::npos);
      CHECK(said->find(" (") < said->find("); "));
      ++refusals;
      with_class += said->find("bytes for a buffer of class ") != std::string::npos ? 1 : 0;
      bytes += 4 * 1024;
      REQUIRE(refusals < 1000);
    }
    CHECK(refusals > 20);
    CHECK(with_class > refusals / 2);
  }
}

TEST_CASE("simulated device: each pinned allocation is refused once") {
  EnqueuedRank rank(true);
  HostGrads leaves(rank, 3);
  rank.on_host->load_state(rank.state());
  for (int step = 0; step < 3; ++step) rank.on_host->step(leaves);
  std::int64_t given = 0;
  while (const std::optional<std::string> said =
             attempt(rank, leaves, {ScarceMemory::plenty, given})) {
    CAPTURE(*said);
    CHECK(said->find("bytes of pinned memory failed") != std::string::npos);
    ++given;
    REQUIRE(given < 1000);
  }
  CHECK(given > 0);
}

}  // namespace scarce_memory_test
