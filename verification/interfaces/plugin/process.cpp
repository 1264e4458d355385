#include "verification/interfaces/plugin/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/device/runtime/device.hpp"
#include "verification/ops/op_candidate.hpp"

extern char** environ;

namespace zeroproof::verification {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kept_output = 4096;
constexpr std::size_t shown_output = 160;

constexpr const char* worker_use = "plug-ins run in it, a program beside this one";
constexpr const char* worker_remedy = "build both, and keep them in one folder";

/// Environment for OpenMP of a library: its threads wait without spinning, as those of this
/// program.
std::vector<std::string> environment() {
  std::vector<std::string> entries = {"OMP_WAIT_POLICY=passive"};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "OMP_WAIT_POLICY=", 16) != 0) entries.emplace_back(*variable);
  }
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

struct Ends {
  int ours = -1, theirs = -1;
};

/// Between fork and exec: no allocation, no locks.
[[noreturn]] void become(const char* program, char** words, char** variables, int socket,
                         int memory, int output, const PluginLimits& limits, int rules) {
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  // First move them out of the way of their final numbers.
  const int from[] = {::fcntl(null, F_DUPFD, 16), ::fcntl(output, F_DUPFD, 16),
                      ::fcntl(output, F_DUPFD, 16), ::fcntl(socket, F_DUPFD, 16),
                      ::fcntl(memory, F_DUPFD, 16)};
  rules = rules < 0 ? -1 : ::fcntl(rules, F_DUPFD, 16);
  for (int to = 0; to < 5; ++to) ::dup2(from[to], to);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  limit_child(limits);
  // Here, and not in the program: a library that replaced its file would not start an open process.
  forbid_others(rules);
  ::syscall(SYS_close_range, 5U, ~0U, 0U);
  ::execve(program, words, variables);
  ::_exit(plugin_connection_lost);
}

std::string signal_name(int signal) {
  const char* known = ::sigabbrev_np(signal);
  return known == nullptr ? "signal " + std::to_string(signal) : "SIG" + std::string(known);
}

/// Describes the end of a process.
std::string told_by(int status) {
  if (!WIFSIGNALED(status)) {
    const int code = WEXITSTATUS(status);
    if (code == plugin_connection_lost) return "closed file descriptors of the harness";
    return "ended its process with exit code " + std::to_string(code);
  }
  const int signal = WTERMSIG(status);
  const std::string died = "died of " + signal_name(signal);
  switch (signal) {
    case SIGSYS:
      return died + ": it started a process, which is forbidden";
    case SIGXFSZ:
      return died + ": it exceeded the limit of file size";
    case SIGSEGV:
    case SIGBUS:
      return died + ": it accessed unmapped memory";
    case SIGABRT:
      return died + ": it aborted";
    case SIGFPE:
    case SIGILL:
      return died + ": it executed an invalid instruction";
    default:
      return died;
  }
}

}  // namespace

std::string plugin_worker(std::int32_t device_type) {
  const bool simulated = device_type != 0 && cuda::device::device_info().simulated;
  std::error_code problem;
  // Neither a variable nor the working folder may name another program.
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", problem);
  ZP_CHECK(!problem, ErrorCode::io, "this program cannot find its own file: " + problem.message(),
           worker_use, "mount /proc");
  return self.parent_path() / (simulated ? "zeroproof-plugin-sim" : "zeroproof-plugin");
}

PluginProcess::PluginProcess(std::string worker, const std::string& library, int memory,
                             const PluginLimits& limits, std::int32_t device_type)
    : worker_(std::move(worker)), limits_(limits) {
  ZP_CHECK(::access(worker_.c_str(), X_OK) == 0, ErrorCode::io,
           worker_ + " cannot be run: " + std::strerror(errno), worker_use, worker_remedy);
  std::vector<std::string> words = {"zeroproof-plugin", library, std::to_string(device_type)};
  std::vector<std::string> variables = environment();
  const std::vector<char*> argv = pointers(words), envp = pointers(variables);
  int sockets[2] = {-1, -1}, pipes[2] = {-1, -1};
  const bool there = ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0 &&
                     ::pipe2(pipes, O_CLOEXEC | O_NONBLOCK) == 0;
  if (there) ::fcntl(pipes[1], F_SETFL, 0);  // writes block
  const int rules = landlock_rules();
  pid_ = there ? ::fork() : -1;
  if (pid_ == 0) {
    become(worker_.c_str(), const_cast<char**>(argv.data()), const_cast<char**>(envp.data()),
           sockets[1], memory, pipes[1], limits, rules);
  }
  ::close(rules);
  ::close(sockets[1]);
  ::close(pipes[1]);
  socket_ = sockets[0];
  output_ = pipes[0];
  ZP_CHECK(pid_ > 0, ErrorCode::io,
           "no process could be started for a plug-in: " + std::string(std::strerror(errno)),
           "a plug-in runs in a process of its own", "close some programs, and run again");
}

PluginProcess::~PluginProcess() {
  if (!over_) kill();
  ::close(socket_);
  ::close(output_);
}

void PluginProcess::kill() {
  over_ = true;
  ::kill(-pid_, SIGKILL);  // its whole session
  ::kill(pid_, SIGKILL);   // if it ended before it created one
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

/// Before the library is loaded: no failure is its own.
void PluginProcess::expect_greeting() {
  PluginGreeting greeting;
  try {
    receive(&greeting, sizeof(greeting), "before it loaded the library");
  } catch (const CandidateFailure& failure) {
    if (failure.status() == Status::hung) throw;
    greeting = {};
  }
  const std::string sent = get_text(greeting.build);
  const std::string expected = get_text(plugin_greeting(ZP_VERSION).build);
  if (sent == expected) return;
  fail(ErrorCode::io,
       worker_ + " is not of this build: it sent " + (sent.empty() ? "nothing" : "'" + sent + "'") +
           " and not '" + expected + "'",
       worker_use, worker_remedy);
}

PluginHello PluginProcess::hello() {
  expect_greeting();
  PluginHello hello;
  receive(&hello, sizeof(hello), "while it was loaded");
  return hello;
}

void PluginProcess::expect_silence() {
  std::byte answer{};
  if (::recv(socket_, &answer, sizeof(answer), MSG_DONTWAIT | MSG_PEEK) > 0)
    answered_for_us("between two calls");
}

void PluginProcess::answered_for_us(const std::string& during) {
  kill();
  throw CandidateFailure(Status::tampered,
                         "the plug-in wrote to the connection of the harness " + during);
}

PluginReply PluginProcess::call(PluginRequest request) {
  const std::string during = "in " + get_text(request.operation);
  expect_silence();
  request.number = ++calls_;
  output_bytes_ = 0;
  if (::send(socket_, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request))
    explain_end("between two calls");
  PluginReply reply;
  receive(&reply, sizeof(reply), during);
  if (reply.number != request.number) answered_for_us(during);
  return reply;
}

void PluginProcess::receive(void* message, std::size_t bytes, const std::string& during) {
  const auto until = Clock::now() + std::chrono::duration<double>(limits_.seconds);
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd waits[] = {{socket_, POLLIN, 0}, {output_, POLLIN, 0}};
    // A pipe without a writer would always be ready.
    const int ready =
        left < 0 ? 0 : ::poll(waits, output_bytes_ < 0 ? 1 : 2, static_cast<int>(left) + 1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      kill();
      throw CandidateFailure(Status::hung, "the plug-in did not return " + during + " within " +
                                               std::to_string(static_cast<int>(limits_.seconds)) +
                                               " s" + last_words());
    }
    if ((waits[1].revents & (POLLIN | POLLHUP)) != 0 && output_bytes_ >= 0) read_output();
    if (output_bytes_ > limits_.output_bytes) {
      kill();
      throw CandidateFailure(
          Status::error, "the plug-in wrote more than " + std::to_string(limits_.output_bytes) +
                             " bytes on its standard output and error " + during + last_words());
    }
    if ((waits[0].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
    const ssize_t length = ::recv(socket_, message, bytes, MSG_DONTWAIT);
    if (length == static_cast<ssize_t>(bytes)) return;
    if (length > 0) answered_for_us(during);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (output_bytes_ >= 0) read_output();
    explain_end(during);
  }
}

void PluginProcess::read_output() {
  char piece[4096];
  const ssize_t length = ::read(output_, piece, sizeof(piece));
  if (length == 0) output_bytes_ = -1;  // closed
  if (length <= 0) return;
  output_bytes_ += length;
  said_.append(piece, static_cast<std::size_t>(length));
  if (said_.size() > kept_output) said_.erase(0, said_.size() - kept_output);
}

/// The connection is closed: either the process has ended, or it closed its end.
void PluginProcess::explain_end(const std::string& during) {
  int status = 0;
  pid_t ended = 0;
  for (int i = 0; i < 2000 && ended == 0; ++i) {
    ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::string what = "closed file descriptors of the harness";
  if (ended == pid_) {
    over_ = true;
    ::kill(-pid_, SIGKILL);  // processes it may have left behind
    what = told_by(status);
  } else {
    kill();
  }
  throw CandidateFailure(Status::crashed, "the plug-in " + what + " " + during + last_words());
}

/// The last line of its output, without control characters.
std::string PluginProcess::last_words() const {
  std::string text = said_;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t line = text.rfind('\n');
  if (line != std::string::npos) text.erase(0, line + 1);
  if (text.size() > shown_output) text.erase(0, text.size() - shown_output);
  for (char& c : text) c = c >= ' ' && c <= '~' ? c : '?';
  return text.empty() ? "" : "; its last output: " + text;
}

}  // namespace zeroproof::verification
