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

std::string hexadecimal(unsigned word) {
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 0xFU];
  return text;
}

[[noreturn]] void defect(const std::string& problem, const std::string& why) {
  fail(ErrorCode::internal, problem, why,
       "correct the kernel; every thread of the block or warp must take part");
}

class Simulator {
 public:
  void run(int grid, int block, const std::function<void()>& body, const ForeignShared& shared);
  unsigned wait_for_block(int line, bool counts);
  std::uint64_t exchange(unsigned mask, std::uint64_t bits, unsigned source, int line);
  unsigned lane() const { return current_ % warp_threads; }
  void* shared_memory(std::string_view file, int line, std::size_t num_bytes);

 private:
  enum class State { ready, at_barrier, at_shuffle, done };
  struct Thread {
    State state = State::ready;
    int line = 0;             // line of its wait
    Fiber* fiber = nullptr;   // the fiber that started it
    unsigned mask = 0;        // of its shuffle
    unsigned source = 0;      // of its shuffle
    std::uint64_t bits = 0;   // given to others
    std::uint64_t taken = 0;  // from others
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
  void let_go();
  bool release_block();
  bool release_lanes(unsigned first, unsigned mask);
  std::uint64_t taken_by(const Thread& thread, unsigned first) const;
  void end_thread(const std::string& problem, const std::string& why);
  [[noreturn]] void stuck() const;
  std::string returned_lane() const;
  void resume(unsigned thread);
  void set_order(unsigned num_threads);

  const std::function<void()>* body_ = nullptr;
  const ForeignShared* foreign_ = nullptr;
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

unsigned Simulator::wait_for_block(int line, bool counts) {
  Thread& self = threads_[current_];
  self.bits = counts ? 1 : 0;
  wait(State::at_barrier, line);
  return static_cast<unsigned>(self.taken);
}

/// An exception would leave through code of a library that may not expect one: the thread stops
/// where it is.
void Simulator::end_thread(const std::string& problem, const std::string& why) {
  try {
    defect(problem, why);
  } catch (...) {
    error_ = std::current_exception();
  }
  threads_[current_].fiber->yield();
}

std::uint64_t Simulator::exchange(unsigned mask, std::uint64_t bits, unsigned source, int line) {
  const std::string where = "a shuffle in line " + std::to_string(line);
  if ((mask >> lane() & 1U) == 0) {
    end_thread(where + " is called by lane " + std::to_string(lane()) +
                   ", which is not in its mask " + hexadecimal(mask),
               "CUDA leaves the result undefined");
  }
  if (source >= no_lane)
    end_thread(where + " has a width that is no power of two up to 32", "it names no lane");
  Thread& self = threads_[current_];
  self.mask = mask;
  self.bits = bits;
  self.source = source;
  wait(State::at_shuffle, line);
  return self.taken;
}

void* Simulator::shared_memory(std::string_view file, int line, std::size_t num_bytes) {
  for (Shared& array : shared_) {
    if (array.line == line && array.file == file) return array.bytes.data();
  }
  shared_.push_back({file, line, GuardedBytes(num_bytes)});
  return shared_.back().bytes.data();
}

std::uint64_t Simulator::taken_by(const Thread& thread, unsigned first) const {
  const auto takes_part = [&](unsigned lane) { return (thread.mask >> lane & 1U) != 0; };
  if (thread.source < warp_threads) {
    return takes_part(thread.source) ? threads_[first + thread.source].bits : ~std::uint64_t{0};
  }
  std::uint64_t of_all = 0;
  for (unsigned i = 0; i < warp_threads; ++i) {
    if (!takes_part(i)) continue;
    const std::uint64_t bits = threads_[first + i].bits;
    if (thread.source == greatest) of_all = std::max(of_all, bits);
    if (thread.source == every_lane && bits != 0) of_all |= std::uint64_t{1} << i;
  }
  return of_all;
}

bool Simulator::release_block() {
  std::uint64_t count = 0;
  for (const Thread& thread : threads_) {
    if (thread.state != State::at_barrier || thread.line != threads_[0].line) return false;
    count += thread.bits;
  }
  for (Thread& thread : threads_) {
    thread.state = State::ready;
    thread.taken = count;
  }
  return true;
}

/// first: thread of lane 0. Resumes the lanes of a mask if all of them wait in the same shuffle.
bool Simulator::release_lanes(unsigned first, unsigned mask) {
  const Thread* one = nullptr;
  for (unsigned i = 0; i < warp_threads; ++i) {
    if ((mask >> i & 1U) == 0) continue;
    const Thread& thread = threads_[first + i];
    if (one == nullptr) one = &thread;
    if (thread.state != State::at_shuffle || thread.line != one->line || thread.mask != mask)
      return false;
  }
  for (unsigned i = 0; i < warp_threads; ++i) {
    if ((mask >> i & 1U) == 0) continue;
    Thread& thread = threads_[first + i];
    thread.taken = taken_by(thread, first);
    thread.state = State::ready;
  }
  return true;
}

/// All threads wait or have returned. Resumes the whole block, or all lanes of shuffles.
void Simulator::let_go() {
  bool any = release_block();
  for (unsigned i = 0; i < threads_.size(); ++i) {
    if (threads_[i].state == State::at_shuffle)
      any = release_lanes(i / warp_threads * warp_threads, threads_[i].mask) || any;
  }
  if (!any) stuck();
}

/// The first lane that a shuffle waits for in vain; empty if there is none.
std::string Simulator::returned_lane() const {
  for (unsigned i = 0; i < threads_.size(); ++i) {
    if (threads_[i].state != State::at_shuffle) continue;
    for (unsigned lane = 0; lane < warp_threads; ++lane) {
      if ((threads_[i].mask >> lane & 1U) == 0) continue;
      if (threads_[i / warp_threads * warp_threads + lane].state != State::done) continue;
      return "the shuffle's mask " + hexadecimal(threads_[i].mask) + " names lane " +
             std::to_string(lane) + ", which has returned; ";
    }
  }
  return "";
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
         returned_lane() + count(State::at_barrier) + " threads wait at a barrier, " +
             count(State::at_shuffle) + " at a shuffle, " + count(State::done) +
             " have returned; thread " + std::to_string(waiting - threads_.begin()) +
             " waits in line " + std::to_string(waiting->line));
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
  foreign_->begin();
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
      if (threads_[thread].state == State::ready && !error_) resume(thread);
    }
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  for (const Shared& array : shared_) {
    if (!array.bytes.guards_intact())
      defect("a kernel wrote past a shared array", "it would overwrite another one");
  }
  foreign_->end();
}

void Simulator::run(int grid, int block, const std::function<void()>& body,
                    const ForeignShared& shared) {
  check_launch(grid, block);
  body_ = &body;
  foreign_ = &shared;
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

void run(int grid, int block, const std::function<void()>& body, const ForeignShared& shared) {
  simulator.run(grid, block, body, shared);
}

unsigned wait_for_block(int line, bool counts) { return simulator.wait_for_block(line, counts); }

std::uint64_t exchange(unsigned mask, std::uint64_t bits, unsigned source, int line) {
  return simulator.exchange(mask, bits, source, line);
}

unsigned lane() { return simulator.lane(); }

void* shared_memory(const char* file, int line, std::size_t num_bytes) {
  return simulator.shared_memory(file, line, num_bytes);
}

}  // namespace zeroproof::cuda::sim
