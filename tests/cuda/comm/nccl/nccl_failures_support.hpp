#pragma once
// Ranks that fail, or whose NCCL fails. Include doctest.h first.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/base/error.hpp"
#include "tests/cuda/comm/nccl/nccl_support.hpp"

namespace zeroproof::nccl_test {

using copies_test::blocks_of;
using copies_test::on_device;
using device_test::DeviceBytes;

inline constexpr int ranks = 3;
inline constexpr std::int64_t size = 8;

/// The memory of a rank in these cases, allocated before any call can hang.
struct Rank {
  explicit Rank(Communicator& control)
      : comm(cuda::make_nccl_communicator(control, fake(), short_limit)),
        mine(64),
        all(ranks * 64) {
    control.barrier();
  }
  void gather(std::int64_t num_bytes = size) {
    comm->all_gather(on_device<std::byte>(mine, num_bytes), blocks_of(all, ranks, num_bytes));
  }
  void broadcast(int root) { comm->broadcast(on_device<std::byte>(all, size), root); }
  void wait() { cuda::wait_watched({comm.get()}, short_limit); }

  std::unique_ptr<Communicator> comm;
  DeviceBytes mine, all;
};

/// Runs with calls that are accepted immediately and hang on the device, and with calls that hang
/// on the host; in the first case in both orders of streams.
inline void check_both_ways(const std::string& plan,
                            const std::function<void(Rank& rank, Communicator& control)>& work,
                            const std::function<void(const Outcome& outcome)>& check) {
  for (const std::string patience : {"patience=0", "patience=0", "patience=60000"}) {
    static int turn = 0;
    const sim_test::UseOrder use(sim_test::both_orders[++turn % 2]);
    const UsePlan use_plan(plan.empty() ? patience : patience + "," + plan);
    CAPTURE(patience);
    check(run_failing(ranks, [&](Communicator& control) {
      Rank rank(control);
      work(rank, control);
    }));
  }
}

inline void check_all(const Outcome& outcome, const std::string& part) {
  for (const std::string& text : outcome.texts) contains(text, part);
}

/// Delays rank 2 until the others have ended, or the time limit.
inline void stay_away(const std::atomic<int>& failed) {
  const auto begin = std::chrono::steady_clock::now();
  while (failed < 2 && std::chrono::steady_clock::now() - begin < promptly)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace zeroproof::nccl_test
