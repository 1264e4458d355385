#include "verification/cli/program/interruption.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <thread>
#include <utility>

namespace zeroproof::verification {
namespace {

constexpr std::array<int, 3> signals = {SIGINT, SIGTERM, SIGHUP};

/// Pipe to which the signal handler writes the signal; a handler may do little else. -1: no reader.
std::atomic<int> signal_pipe{-1};
static_assert(std::atomic<int>::is_always_lock_free);

void die_of(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::kill(::getpid(), signal);
}

void handle_signal(int signal) {
  const int error = errno;
  const int file = signal_pipe.exchange(-1);
  const auto word = static_cast<unsigned char>(signal);
  if (file < 0 || ::write(file, &word, 1) != 1) die_of(signal);
  errno = error;
}

}  // namespace

struct Interruption::Watch {
  explicit Watch(std::function<void(int)> words) : last_words(std::move(words)) {
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return;  // then they end the process as always
    signal_pipe = pipe[1];
    thread = std::thread([this] { listen(); });
    for (std::size_t i = 0; i < signals.size(); ++i) {
      struct sigaction action {};
      action.sa_handler = handle_signal;
      action.sa_flags = SA_RESTART;
      sigaction(signals[i], nullptr, &before[i]);
      if (before[i].sa_handler != SIG_IGN) sigaction(signals[i], &action, nullptr);
    }
  }

  ~Watch() {
    if (!thread.joinable()) return;
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before[i], nullptr);
    const unsigned char none = 0;
    const bool quiet = signal_pipe.exchange(-1) >= 0;
    if (quiet && ::write(pipe[1], &none, 1) != 1) std::terminate();
    thread.join();  // or the process ends there
    ::close(pipe[0]);
    ::close(pipe[1]);
  }

  void listen() {
    unsigned char signal = 0;
    while (::read(pipe[0], &signal, 1) < 0 && errno == EINTR) {
    }
    if (signal == 0) return;
    try {
      last_words(signal);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "zeroproof: %s\n", error.what());
    }
    die_of(signal);
    while (true) ::pause();
  }

  std::function<void(int)> last_words;
  std::array<int, 2> pipe{-1, -1};
  std::array<struct sigaction, signals.size()> before{};
  std::thread thread;
};

Interruption::Interruption(std::function<void(int signal)> last_words)
    : watch_(std::make_unique<Watch>(std::move(last_words))) {}
Interruption::~Interruption() = default;

std::string signal_name(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "signal " + std::to_string(signal);
  }
}

}  // namespace zeroproof::verification
