#pragma once
// A separate stack for a function that is suspended in the middle: POSIX contexts and jumps, with
// the annotations that AddressSanitizer needs.

#include <ucontext.h>

#include <csetjmp>
#include <cstddef>
#include <memory>

#if defined(__SANITIZE_ADDRESS__)
#define ZP_SIM_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define ZP_SIM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ZP_SIM_ASAN 1
#elif __has_feature(thread_sanitizer)
#define ZP_SIM_TSAN 1
#endif
#endif
#ifdef ZP_SIM_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace zeroproof::cuda::sim {

/// Runs a function that never returns, between resume() of the owner and yield() of the function.
/// The owner is always the same operating-system thread.
class Fiber {
 public:
  explicit Fiber(void (*main)()) : stack_(new unsigned char[stack_bytes]) {
    getcontext(&inside_);
    inside_.uc_stack.ss_sp = stack_.get();
    inside_.uc_stack.ss_size = stack_bytes;
    inside_.uc_link = nullptr;
    makecontext(&inside_, main, 0);
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

#if defined(ZP_SIM_ASAN) || defined(ZP_SIM_TSAN)
  void resume() {
    leave(&owner_stack_, stack_.get(), stack_bytes);
    swapcontext(&owner_, &inside_);
    arrive(owner_stack_);
  }

  void yield() {
    leave(&inside_stack_, owner_bottom_, owner_bytes_);
    swapcontext(&inside_, &owner_);
    arrived();
  }
#else
  // A context is entered once; from then on both sides jump. swapcontext makes a system call for
  // the signal mask each time, which takes longer than most threads of a kernel.
  void resume() {
    if (_setjmp(owner_jump_) != 0) return;
    if (started_) _longjmp(inside_jump_, 1);
    started_ = true;
    setcontext(&inside_);
  }

  void yield() {
    if (_setjmp(inside_jump_) == 0) _longjmp(owner_jump_, 1);
  }
#endif

  /// The first call in main.
  void arrived() { arrive(inside_stack_, &owner_bottom_, &owner_bytes_); }

 private:
  static constexpr std::size_t stack_bytes = 256 * 1024;

#ifdef ZP_SIM_ASAN
  static void leave(void** saved, const void* bottom, std::size_t bytes) {
    __sanitizer_start_switch_fiber(saved, bottom, bytes);
  }
  static void arrive(void* saved, const void** bottom = nullptr, std::size_t* bytes = nullptr) {
    __sanitizer_finish_switch_fiber(saved, bottom, bytes);
  }
#else
  static void leave(void**, const void*, std::size_t) {}
  static void arrive(void*, const void** = nullptr, std::size_t* = nullptr) {}
#endif

  std::unique_ptr<unsigned char[]> stack_;
  ucontext_t inside_{};
  ucontext_t owner_{};
  jmp_buf inside_jump_{}, owner_jump_{};
  bool started_ = false;
  void* inside_stack_ = nullptr;
  void* owner_stack_ = nullptr;
  const void* owner_bottom_ = nullptr;
  std::size_t owner_bytes_ = 0;
};

}  // namespace zeroproof::cuda::sim
