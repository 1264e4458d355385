#include "verification/interfaces/plugin/confinement.hpp"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <vector>

namespace zeroproof::verification {
namespace {

void limit(int resource, std::int64_t most) {
  rlimit now{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &now) != 0) return;
  const rlimit wanted{static_cast<rlim_t>(most), static_cast<rlim_t>(most)};
  if (now.rlim_max != RLIM_INFINITY && now.rlim_max < wanted.rlim_max)
    return;  // the limit is lower already
  ::setrlimit(static_cast<__rlimit_resource_t>(resource), &wanted);
}

/// A seccomp program. Calls without a rule are allowed.
class CallFilter {
 public:
  CallFilter() {
    load(offsetof(seccomp_data, arch));
    jump(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0);
    end(kill);
    load(offsetof(seccomp_data, nr));
    jump(BPF_JGE, first_x32_call, 0, 1);
    end(kill);
  }

  void ends_process(long call) { rule(call, kill); }
  void fails(long call, std::uint32_t error) { rule(call, SECCOMP_RET_ERRNO | error); }
  /// EPERM unless the argument of this position is one of the two numbers.
  void fails_unless(long call, std::size_t position, std::uint32_t one, std::uint32_t other) {
    jump(BPF_JEQ, static_cast<std::uint32_t>(call), 0, 5);
    load_argument(position);
    jump(BPF_JEQ, one, 2, 0);
    jump(BPF_JEQ, other, 1, 0);
    end(SECCOMP_RET_ERRNO | EPERM);
    load(offsetof(seccomp_data, nr));
  }
  /// EPERM if the argument of this position is that number.
  void fails_if(long call, std::size_t position, std::uint32_t value) {
    jump(BPF_JEQ, static_cast<std::uint32_t>(call), 0, 4);
    load_argument(position);
    jump(BPF_JEQ, value, 0, 1);
    end(SECCOMP_RET_ERRNO | EPERM);
    load(offsetof(seccomp_data, nr));
  }
  /// Ends the process unless the first argument has one of these bits.
  void ends_process_without(long call, std::uint32_t bits) {
    jump(BPF_JEQ, static_cast<std::uint32_t>(call), 0, 4);
    load_argument(0);
    jump(BPF_JSET, bits, 1, 0);
    end(kill);
    end(SECCOMP_RET_ALLOW);
  }

  void install() {
    end(SECCOMP_RET_ALLOW);
    const sock_fprog program = {static_cast<unsigned short>(lines_.size()), lines_.data()};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
    }
  }

 private:
  static constexpr std::uint32_t kill = SECCOMP_RET_KILL_PROCESS;
  static constexpr std::uint32_t first_x32_call =
      0x40000000;  // the same calls, pointers of 32 bits

  void rule(long call, std::uint32_t what) {
    jump(BPF_JEQ, static_cast<std::uint32_t>(call), 0, 1);
    end(what);
  }
  void load(std::size_t offset) {
    lines_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)));
  }
  /// Its lower half: the numbers above are 32 bits wide, and so are these arguments.
  void load_argument(std::size_t position) {
    load(offsetof(seccomp_data, args) + position * sizeof(std::uint64_t));
  }
  /// Skips lines: so many if the comparison of the loaded word with the value is true, or false.
  void jump(std::uint16_t comparison, std::uint32_t value, std::uint8_t if_true,
            std::uint8_t if_false) {
    lines_.push_back(BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | comparison | BPF_K), value,
                              if_true, if_false));
  }
  void end(std::uint32_t what) { lines_.push_back(BPF_STMT(BPF_RET | BPF_K, what)); }

  std::vector<sock_filter> lines_;
};

void forbid_control() {
  CallFilter filter;
  const auto self = static_cast<std::uint32_t>(::getpid());
  const auto judge = static_cast<std::uint32_t>(::getppid());
  for (const long call : {SYS_perf_event_open, SYS_bpf, SYS_fanotify_init})
    filter.fails(call, EPERM);
  for (const long call :
       {SYS_prlimit64, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr})
    filter.fails_unless(call, 0, self, 0);
  // Not other threads of its own, which the C library binds to processors by their numbers.
  filter.fails_if(SYS_sched_setaffinity, 0, judge);
  constexpr std::uint32_t ioprio_who_process = 1;
  filter.fails_unless(SYS_setpriority, 0, PRIO_PROCESS, PRIO_PROCESS);
  filter.fails_unless(SYS_setpriority, 1, self, 0);
  filter.fails_unless(SYS_ioprio_set, 0, ioprio_who_process, ioprio_who_process);
  filter.fails_unless(SYS_ioprio_set, 1, self, 0);
  for (const std::uint32_t request : {TIOCSTI, TCXONC}) filter.fails_if(SYS_ioctl, 1, request);
  filter.install();
}

}  // namespace

void limit_child(const PluginLimits& limits) {
  ::setsid();
  limit(RLIMIT_DATA, limits.memory_bytes);
  limit(RLIMIT_FSIZE, limits.file_bytes);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NPROC,
        4096);  // the kernel counts all threads of a user, and none of root: see forbid_processes
}

int landlock_version() {
  const long version =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return std::max(0, static_cast<int>(version));
}

void forbid_others() {
  forbid_control();
  constexpr std::uint64_t scope_signal = 2;
  // The header of Debian 12 lacks the last two fields.
  struct {
    std::uint64_t handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_BLOCK;  // one has to be given
    std::uint64_t handled_access_net = 0, scoped = 0;
  } rules;
  const int version = landlock_version();
  if (version == 0) return;
  if (version >= landlock_with_signals) rules.scoped = scope_signal;
  const long set = ::syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);
  if (set < 0) return;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
    ::syscall(SYS_landlock_restrict_self, set, 0);
  }
  ::close(static_cast<int>(set));
}

void forbid_processes() {
  CallFilter filter;
  for (const long call : {SYS_fork, SYS_vfork, SYS_execve, SYS_execveat}) filter.ends_process(call);
  filter.ends_process_without(SYS_clone, CLONE_THREAD);
  filter.fails(SYS_clone3, ENOSYS);  // its flags cannot be filtered; the C library uses clone then
  for (const long call :
       {SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_tkill, SYS_pidfd_send_signal})
    filter.fails(call, EPERM);
  const auto self = static_cast<std::uint32_t>(::getpid());
  for (const long call : {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo})
    filter.fails_unless(call, 0, self, self);
  filter.install();
}

}  // namespace zeroproof::verification
