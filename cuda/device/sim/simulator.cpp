#include "cuda/device/sim/simulator.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/device/sim/fiber.hpp"
#include "cuda/device/sim/guarded_bytes.hpp"

namespace zeroproof::cuda::sim {

namespace {

constexpr unsigned warp_threads = 32;
constexpr unsigned most_threads = 1024;

[[noreturn]] void defect(const std::string& problem, const std::string& why) {
  fail(ErrorCode::internal, problem, why,
       "correct the kernel; every thread of the block or warp must take part");
}

class Simulator {
 public:
  void run(int grid, int block, const std::function<void()>& body);
  void wait_for_block(int line) { wait(State::at_barrier, line); }
  std::uint64_t exchange_down(std::uint64_t bits, unsigned delta, int line);
  std::uint32_t largest_of_warp(std::uint32_t value, int line);
  void* shared_memory(std::string_view file, int line, std::size_t num_bytes);

 private:
  enum class State { ready, at_barrier, at_shuffle, done };
  struct Thread {
    State state = State::ready;
    int line = 0;            // line of its wait
    Fiber* fiber = nullptr;  // the fiber that started it
    unsigned num_shuffles = 0;
    std::uint64_t values[2] =
        {};  // values of the last two shuffles: a lane may be one shuffle ahead of its neighbours
  };
  struct Shared {
    std::string_view file;
    int line;
    GuardedBytes bytes;
  };

  static void fiber_main();
  void start_threads();
  void run_block();
  void wait(State state, int line);
  unsigned publish(std::uint64_t bits, int line);
  void let_go();
  bool all_wait(unsigned first, unsigned last, State state) const;
  [[noreturn]] void stuck() const;
  void resume(unsigned thread);
  void set_order(unsigned num_threads);

  const std::function<void()>* body_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<unsigned> order_;  // order in which threads start and continue
  std::size_t next_ = 0;         // next index of order_ to start
  unsigned current_ = 0;
  unsigned num_launches_ = 0;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  Fiber* active_ = nullptr;
  std::exception_ptr error_;
  std::vector<Shared> shared_;
};

thread_local Simulator simulator;

/// A fiber starts one thread after the other until one has to wait; it then belongs to that thread
/// until the thread ends.
void Simulator::fiber_main() { simulator.start_threads(); }

void Simulator::start_threads() {
  Fiber* self = active_;
  self->arrived();
  for (;;) {
    while (next_ < order_.size() && !error_) {
      current_ = order_[next_++];
      threadIdx.x = current_;
      threads_[current_].fiber = self;
      try {
        (*body_)();
      } catch (...) {
        error_ = std::current_exception();
      }
      threads_[current_].state = State::done;
    }
    idle_.push_back(self);
    self->yield();
  }
}

void Simulator::resume(unsigned thread) {
  current_ = thread;
  threadIdx.x = thread;
  active_ = threads_[thread].fiber;
  active_->resume();
}

void Simulator::wait(State state, int line) {
  Thread& self = threads_[current_];
  self.state = state;
  self.line = line;
  self.fiber->yield();
}

/// Stores a value for the warp and waits until all lanes have stored theirs. Returns which of the
/// last two shuffles this is.
unsigned Simulator::publish(std::uint64_t bits, int line) {
  Thread& thread = threads_[current_];
  const unsigned round = thread.num_shuffles++ % 2;
  thread.values[round] = bits;
  wait(State::at_shuffle, line);
  return round;
}

std::uint64_t Simulator::exchange_down(std::uint64_t bits, unsigned delta, int line) {
  const unsigned thread = current_;
  const unsigned round = publish(bits, line);
  return thread % warp_threads + delta < warp_threads ? threads_[thread + delta].values[round]
                                                      : bits;
}

std::uint32_t Simulator::largest_of_warp(std::uint32_t value, int line) {
  const unsigned first = current_ / warp_threads * warp_threads;
  const unsigned round = publish(value, line);
  std::uint64_t largest = 0;
  for (unsigned i = first; i < first + warp_threads; ++i)
    largest = std::max(largest, threads_[i].values[round]);
  return static_cast<std::uint32_t>(largest);
}

void* Simulator::shared_memory(std::string_view file, int line, std::size_t num_bytes) {
  for (Shared& array : shared_) {
    if (array.line == line && array.file == file) return array.bytes.data();
  }
  shared_.push_back({file, line, GuardedBytes(num_bytes)});
  return shared_.back().bytes.data();
}

bool Simulator::all_wait(unsigned first, unsigned last, State state) const {
  return std::all_of(threads_.begin() + first, threads_.begin() + last, [&](const Thread& thread) {
    return thread.state == state && thread.line == threads_[first].line;
  });
}

/// All threads wait or have returned. Resumes the whole block or whole warps.
void Simulator::let_go() {
  const auto num_threads = static_cast<unsigned>(threads_.size());
  bool any = false;
  const auto go = [&](unsigned first, unsigned last) {
    for (unsigned i = first; i < last; ++i) threads_[i].state = State::ready;
    any = true;
  };
  if (all_wait(0, num_threads, State::at_barrier)) go(0, num_threads);
  for (unsigned first = 0; first < num_threads; first += warp_threads) {
    if (all_wait(first, first + warp_threads, State::at_shuffle)) go(first, first + warp_threads);
  }
  if (!any) stuck();
}

void Simulator::stuck() const {
  const auto count = [&](State state) {
    const auto n = std::count_if(threads_.begin(), threads_.end(),
                                 [&](const Thread& t) { return t.state == state; });
    return std::to_string(n);
  };
  const auto waiting = std::find_if(threads_.begin(), threads_.end(),
                                    [](const Thread& t) { return t.state != State::done; });
  defect("block " + std::to_string(blockIdx.x) + " of a kernel cannot go on",
         count(State::at_barrier) + " threads wait at a barrier, " + count(State::at_shuffle) +
             " at a shuffle, " + count(State::done) + " have returned; thread " +
             std::to_string(waiting - threads_.begin()) + " waits in line " +
             std::to_string(waiting->line));
}

void Simulator::set_order(unsigned num_threads) {
  order_.resize(num_threads);
  for (unsigned i = 0; i < num_threads; ++i) {
    const unsigned orders[] = {i, num_threads - 1 - i,
                               i * 1009 % num_threads};  // 1009 is prime and above 1024 / 2
    order_[i] = orders[num_launches_ % 3];
  }
}

void Simulator::run_block() {
  std::fill(threads_.begin(), threads_.end(), Thread{});
  for (Shared& array : shared_) array.bytes.poison();
  next_ = 0;
  while (next_ < order_.size() && !error_) {
    if (idle_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>(fiber_main));
      idle_.push_back(fibers_.back().get());
    }
    active_ = idle_.back();
    idle_.pop_back();
    active_->resume();
  }
  const auto is_done = [](const Thread& thread) { return thread.state == State::done; };
  while (!error_ && !std::all_of(threads_.begin(), threads_.end(), is_done)) {
    let_go();
    for (const unsigned thread : order_) {
      if (threads_[thread].state == State::ready) resume(thread);
    }
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  for (const Shared& array : shared_) {
    if (!array.bytes.guards_intact())
      defect("a kernel wrote past a shared array", "it would overwrite another one");
  }
}

void Simulator::run(int grid, int block, const std::function<void()>& body) {
  check_launch(grid, block);
  body_ = &body;
  gridDim.x = static_cast<unsigned>(grid);
  blockDim.x = static_cast<unsigned>(block);
  threads_.resize(blockDim.x);
  shared_.clear();
  set_order(blockDim.x);
  ++num_launches_;
  try {
    for (unsigned i = 0; i < gridDim.x; ++i) {
      blockIdx.x = num_launches_ % 2 == 0 ? i : gridDim.x - 1 - i;
      run_block();
    }
  } catch (...) {
    idle_.clear();  // fibers that wait in the middle of a kernel are never resumed
    fibers_.clear();
    throw;
  }
}

void require_whole_warp(unsigned mask) {
  if (mask != 0xFFFFFFFFU)
    defect("a shuffle mask covers only a part of the warp", "only whole warps are simulated");
}

}  // namespace

void check_launch(int grid, int block) {
  ZP_CHECK(grid >= 1 && block >= 1 && block <= static_cast<int>(most_threads) &&
               block % warp_threads == 0,
           ErrorCode::internal,
           "a kernel was launched with " + std::to_string(grid) + " blocks of " +
               std::to_string(block) + " threads",
           "no device runs this, or only with an incomplete warp",
           "launch at least 1 block of 32 to 1024 threads, a multiple of 32");
}

void run(int grid, int block, const std::function<void()>& body) {
  simulator.run(grid, block, body);
}

void wait_for_block(int line) { simulator.wait_for_block(line); }

std::uint64_t exchange_down(unsigned mask, std::uint64_t bits, unsigned delta, int line) {
  require_whole_warp(mask);
  return simulator.exchange_down(bits, delta, line);
}

std::uint32_t largest_of_warp(unsigned mask, std::uint32_t value, int line) {
  require_whole_warp(mask);
  return simulator.largest_of_warp(value, line);
}

void* shared_memory(const char* file, int line, std::size_t num_bytes) {
  return simulator.shared_memory(file, line, num_bytes);
}

}  // namespace zeroproof::cuda::sim
