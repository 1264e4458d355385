#include "verification/training/ranks/job_guard.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "common/base/error.hpp"

namespace zeroproof::verification {
namespace {

constexpr int milliseconds_to_speak =
    4000;  // mpirun's delay from SIGTERM to SIGKILL, and the output of ranks
constexpr int milliseconds_unheard = 1000;    // mpirun must notify the hosts of the job
constexpr int milliseconds_of_orphans = 300;  // time for remaining processes of a command to end
constexpr char speak = 's';
constexpr char hush = 'h';
constexpr char quit = 'q';  // end quietly and remove the folders: the caller ends before it could

/// The current job, for end_guarded_job().
std::atomic<int> current_link{-1};
std::atomic<pid_t> current_pid{-1};

bool send_word(int link, const void* word, std::size_t num_bytes) {
  return ::send(link, word, num_bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(num_bytes);
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// From here to guard(): no allocation, because the guard is forked from a process whose other
// threads may have held any lock.

/// Sends a signal to every child; orphans of a child become children of the guard, so that all are
/// reached.
void signal_children(int signal) {
  static char text[1 << 16];
  const int file = ::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  const ssize_t length = ::read(file, text, sizeof(text) - 1);
  ::close(file);
  pid_t pid = 0;
  for (ssize_t i = 0; i < length; ++i) {
    if (text[i] >= '0' && text[i] <= '9') {
      pid = pid * 10 + (text[i] - '0');
    } else if (pid > 0) {
      ::kill(pid, signal);
      pid = 0;
    }
  }
  if (pid > 0) ::kill(pid, signal);
}

void set_signals(void (*handler)(int)) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT}) std::signal(signal, handler);
}

/// Closes all file descriptors that the guard does not need. own_output: the command writes to the
/// output of this program.
void keep_open(int link, const int* locks, std::size_t num_locks, bool own_output) {
  const auto is_kept = [&](int file) {
    return file == link || (own_output && (file == 1 || file == 2)) ||
           std::find(locks, locks + num_locks, file) != locks + num_locks;
  };
  int last = std::max(link, 2);
  for (std::size_t i = 0; i < num_locks; ++i) last = std::max(last, locks[i]);
  for (int file = 0; file <= last; ++file) {
    if (!is_kept(file)) ::close(file);
  }
  ::syscall(SYS_close_range, static_cast<unsigned>(last + 1), ~0U, 0U);
  for (const int standard : {0, 1, 2}) {
    if (!is_kept(standard)) static_cast<void>(::open("/dev/null", O_RDWR));
  }
}

struct Plan {
  char* const* words;
  char** environment;
  const char* output;
  const char* const* remove;  // command line that removes the folders
  const int* locks;
  std::size_t num_locks;
  int link;
};

[[noreturn]] void become(const Plan& plan, int error_pipe, pid_t guard) {
  set_signals(SIG_DFL);
  ::setpgid(0, 0);
  // If the guard is killed, SIGTERM makes mpirun end its ranks.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  bool redirected = *plan.output == '\0';
  if (!redirected) {
    const int out = ::open(plan.output, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600);
    redirected = out >= 0 && ::dup2(out, 1) == 1 && ::dup2(out, 2) == 2;
  }
  if (redirected && ::getppid() == guard) ::execvpe(plan.words[0], plan.words, plan.environment);
  const int error = errno;
  static_cast<void>(!::write(error_pipe, &error, sizeof(error)));
  ::_exit(127);
}

/// Starts the command; returns 0 or an error number.
int start(const Plan& plan, pid_t& pid) {
  int error_pipe[2];
  if (::pipe2(error_pipe, O_CLOEXEC) != 0) return errno;
  const pid_t guard = ::getpid();
  pid = ::fork();
  if (pid == 0) become(plan, error_pipe[1], guard);
  int error = pid < 0 ? errno : 0;
  ::close(error_pipe[1]);
  if (pid > 0 && ::read(error_pipe[0], &error, sizeof(error)) <= 0) error = 0;
  ::close(error_pipe[0]);
  return error;
}

/// Collects children that have ended. True while there are any.
bool collect(pid_t command, bool& ended, int& status) {
  while (true) {
    int result = 0;
    const pid_t pid = ::waitpid(-1, &result, WNOHANG);
    if (pid == command) {
      ended = true;
      status = result;
    }
    if (pid == 0) return true;
    if (pid < 0 && errno != EINTR) return false;
  }
}

[[noreturn]] void guard(const Plan& plan) {
  set_signals(SIG_IGN);  // it ends after its job
  ::setpgid(0, 0);
  keep_open(plan.link, plan.locks, plan.num_locks, *plan.output == '\0');
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "zeroproof-guard");
  pid_t command = -1;
  const int error = start(plan, command);
  send_word(plan.link, &error, sizeof(error));
  int status = 0;
  bool ended = error != 0;
  bool orphaned = false;
  bool tidy = false;
  int left = -1;  // milliseconds until SIGKILL; -1: no end requested
  while (collect(command, ended, status)) {
    if (ended && left < 0) left = milliseconds_of_orphans;
    if (ended) left = std::min(left, milliseconds_of_orphans);
    constexpr int tick = 20;
    if (left == 0) signal_children(SIGKILL);
    if (left > 0) left = std::max(0, left - tick);
    pollfd link{plan.link, POLLIN, 0};
    if (orphaned) {
      ::poll(nullptr, 0, tick);
    } else if (::poll(&link, 1, tick) > 0) {
      char word = hush;
      const ssize_t length = ::read(plan.link, &word, 1);
      orphaned = length <= 0;
      tidy = tidy || orphaned || word == quit;
      const int time = word == speak && !orphaned ? milliseconds_to_speak : milliseconds_unheard;
      if (left < 0 || left > time) left = time;
      if (!ended) ::kill(command, SIGTERM);
      if (!ended) ::kill(command, SIGCONT);
    }
  }
  const bool heard = !orphaned && send_word(plan.link, &status, sizeof(status));
  if (tidy || !heard) ::execvp(plan.remove[0], const_cast<char* const*>(plan.remove));
  ::_exit(0);
}

}  // namespace

JobGuard::JobGuard(const GuardedCommand& command) {
  const std::vector<char*> words = pointers_to(command.words);
  std::vector<char*> environment = pointers_to(command.environment);
  std::vector<std::string> removal = {"rm", "-rf", "--"};
  removal.insert(removal.end(), command.folders.begin(), command.folders.end());
  const std::vector<char*> remove = pointers_to(removal);
  const auto refuse = [&](int error) {
    fail(ErrorCode::unavailable, command.words[0] + " cannot be started: " + std::strerror(error),
         "MPI cases run under it",
         "install openmpi-bin, or leave MPI worlds out with --world self,threads:4");
  };
  int link[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link) != 0) refuse(errno);
  const Plan plan{words.data(),  environment.data(),   command.output.c_str(),
                  remove.data(), command.locks.data(), command.locks.size(),
                  link[1]};
  pid_ = ::fork();
  if (pid_ == 0) guard(plan);
  int error = errno;
  ::close(link[1]);
  link_ = link[0];
  const bool started = pid_ > 0 && read_word(&error) && error == 0;
  current_pid = pid_;
  current_link = link_;
  if (started) return;
  if (pid_ > 0) forget();
  ::close(link_);
  refuse(error);
}

/// An int from the guard; false if the guard has ended.
bool JobGuard::read_word(int* word) const {
  ssize_t length = -1;
  do length = ::read(link_, word, sizeof(*word));
  while (length < 0 && errno == EINTR);
  return length == sizeof(*word);
}

void JobGuard::forget() {
  current_link = -1;
  current_pid = -1;
  ::waitpid(pid_, nullptr, 0);
}

bool JobGuard::ended_within(std::chrono::milliseconds limit) {
  if (ended_) return true;
  pollfd link{link_, POLLIN, 0};
  if (::poll(&link, 1, static_cast<int>(limit.count())) <= 0) {
    ::kill(pid_, SIGCONT);  // a stopped guard would never report
    return false;
  }
  if (!read_word(&status_)) status_ = SIGKILL;  // the guard was killed, and the command with it
  ended_ = true;
  forget();
  return true;
}

void JobGuard::end(bool quiet) {
  if (!ended_) send_word(link_, quiet ? &hush : &speak, 1);
}

JobGuard::~JobGuard() {
  end(true);
  while (!ended_within(std::chrono::milliseconds(100))) {
  }
  ::close(link_);
}

void end_guarded_job() {
  const int link = current_link;
  const pid_t pid = current_pid;
  if (link < 0 || pid <= 0) return;
  send_word(link, &quit, 1);
  ::kill(pid, SIGCONT);
  // The waiting thread reaps the process; here its end is enough.
  siginfo_t info{};
  for (int i = 0; i < 250; ++i) {
    info.si_pid = 0;
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == pid)
      return;
    ::poll(nullptr, 0, 20);
  }
}

}  // namespace zeroproof::verification
