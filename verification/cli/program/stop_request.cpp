#include "verification/cli/program/stop_request.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

namespace zeroproof::verification {
namespace {

constexpr std::int64_t milliseconds_of_one_request = 200;

// A signal handler has no other place.
std::atomic<int> first_signal{0};
std::atomic<std::int64_t> first_at{0};
static_assert(std::atomic<int>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t milliseconds() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
}

void note(int signal) {
  const int error = errno;
  if (first_signal == 0) {
    first_at = milliseconds();
    first_signal = signal;
  } else if (milliseconds() - first_at > milliseconds_of_one_request) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
    ::kill(::getpid(), signal);
  }
  errno = error;
}

}  // namespace

StopRequest::StopRequest() {
  first_signal = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  for (const int other : signals) sigaddset(&action.sa_mask, other);
  for (std::size_t i = 0; i < signals.size(); ++i) {
    sigaction(signals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(signals[i], &action, nullptr);
  }
}

StopRequest::~StopRequest() {
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
}

int StopRequest::signal() const { return first_signal; }

}  // namespace zeroproof::verification
