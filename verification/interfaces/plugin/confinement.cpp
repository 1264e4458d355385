#include "verification/interfaces/plugin/confinement.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>

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

/// A seccomp program. Calls without a rule are allowed. It allocates nothing.
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
  /// That error unless the argument of this position is one of the two numbers; 0: no effect.
  void fails_unless(long call, std::size_t position, std::uint32_t one, std::uint32_t other,
                    std::uint32_t error = EPERM) {
    jump(BPF_JEQ, static_cast<std::uint32_t>(call), 0, 5);
    load_argument(position);
    jump(BPF_JEQ, one, 2, 0);
    jump(BPF_JEQ, other, 1, 0);
    end(SECCOMP_RET_ERRNO | error);
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
    const sock_fprog program = {static_cast<unsigned short>(count_), lines_.data()};
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
    line(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)));
  }
  /// Its lower half: the numbers above are 32 bits wide, and so are these arguments.
  void load_argument(std::size_t position) {
    load(offsetof(seccomp_data, args) + position * sizeof(std::uint64_t));
  }
  /// Skips lines: so many if the comparison of the loaded word with the value is true, or false.
  void jump(std::uint16_t comparison, std::uint32_t value, std::uint8_t if_true,
            std::uint8_t if_false) {
    line(BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | comparison | BPF_K), value, if_true,
                  if_false));
  }
  void end(std::uint32_t what) { line(BPF_STMT(BPF_RET | BPF_K, what)); }
  void line(sock_filter one) { lines_.at(count_++) = one; }

  std::array<sock_filter, 512> lines_{};
  std::size_t count_ = 0;
};

/// Every call that takes the number of a process or thread and can change it. Numbers of threads of
/// the judge are unknown here, so other numbers than the caller's own are refused.
void forbid_control() {
  CallFilter filter;
  const auto self = static_cast<std::uint32_t>(::getpid());
  const auto judge = static_cast<std::uint32_t>(::getppid());
  for (const long call : {SYS_perf_event_open, SYS_bpf, SYS_fanotify_init, SYS_ptrace,
                          SYS_process_vm_readv, SYS_process_vm_writev, SYS_process_madvise,
                          SYS_pidfd_send_signal, SYS_pidfd_getfd, SYS_tkill})
    filter.fails(call, EPERM);
  for (const long call : {SYS_prlimit64, SYS_sched_setscheduler, SYS_sched_setparam,
                          SYS_sched_setattr, SYS_migrate_pages, SYS_move_pages})
    filter.fails_unless(call, 0, self, 0);
  filter.fails_if(SYS_sched_setaffinity, 0, judge);
  // No effect, since the C library binds threads of its own to processors by their numbers.
  filter.fails_unless(SYS_sched_setaffinity, 0, self, 0, 0);
  constexpr std::uint32_t ioprio_who_process = 1, core_scheduling = 62;
  filter.fails_unless(SYS_setpriority, 0, PRIO_PROCESS, PRIO_PROCESS);
  filter.fails_unless(SYS_setpriority, 1, self, 0);
  filter.fails_unless(SYS_ioprio_set, 0, ioprio_who_process, ioprio_who_process);
  filter.fails_unless(SYS_ioprio_set, 1, self, 0);
  filter.fails_if(SYS_prctl, 0, core_scheduling);
  filter.fails_if(SYS_keyctl, 0, KEYCTL_SESSION_TO_PARENT);
  for (const long call : {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo})
    filter.fails_if(call, 0, judge);
  for (const pid_t group : {-1, -::getpgid(::getppid())})
    filter.fails_if(SYS_kill, 0, static_cast<std::uint32_t>(group));
  // No effect, so that one signal to the group ends all its processes, those that start others too.
  for (const long call : {SYS_setsid, SYS_setpgid}) filter.fails(call, 0);
  for (const std::uint32_t request : {F_SETOWN, F_SETOWN_EX})
    filter.fails_if(SYS_fcntl, 1, request);
  for (const std::uint32_t request : {FIOSETOWN, SIOCSPGRP, TIOCSTI, TCXONC, TIOCVHANGUP, TIOCSETD})
    filter.fails_if(SYS_ioctl, 1, request);
  filter.install();
}

// Not in the headers of Debian 12.
constexpr std::uint64_t fs_refer = 1 << 13, fs_ioctl_dev = 1 << 15, scope_signal = 2;

/// Files of the kernel through which other processes are changed, and terminals.
bool is_closed(const std::filesystem::path& path) {
  const std::string name = path.filename();
  if (path.parent_path() == "/") return name == "proc" || name == "sys" || name == "dev";
  return name == "pts" || name == "console" || name.starts_with("tty") || name.starts_with("vcs");
}

/// Grants these rights to everything in a folder that is not closed.
void open_others(int rules, const char* folder, std::uint64_t file_rights,
                 std::uint64_t folder_rights) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (is_closed(entry->path())) continue;
    landlock_path_beneath_attr rule{};
    rule.parent_fd = ::open(entry->path().c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (rule.parent_fd < 0) continue;
    struct stat info {};
    const bool is_folder = ::fstat(rule.parent_fd, &info) == 0 && S_ISDIR(info.st_mode);
    rule.allowed_access = is_folder ? file_rights | folder_rights : file_rights;
    ::syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    ::close(rule.parent_fd);
  }
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

int landlock_rules() {
  const int version = landlock_version();
  if (version == 0) return -1;
  const std::uint64_t file_rights =
      LANDLOCK_ACCESS_FS_WRITE_FILE | (version >= landlock_with_terminals ? fs_ioctl_dev : 0);
  // Without this right, files could not be moved to another folder.
  const std::uint64_t folder_rights = version >= 2 ? fs_refer : 0;
  // The header of Debian 12 lacks the last two fields.
  struct {
    std::uint64_t handled_access_fs, handled_access_net = 0, scoped = 0;
  } set{file_rights | folder_rights};
  if (version >= landlock_with_signals) set.scoped = scope_signal;
  const auto rules = static_cast<int>(::syscall(SYS_landlock_create_ruleset, &set, sizeof(set), 0));
  if (rules < 0) return -1;
  for (const char* folder : {"/", "/dev"}) open_others(rules, folder, file_rights, folder_rights);
  return rules;
}

void forbid_others(int rules) {
  const int own = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (own >= 0) {
    [[maybe_unused]] const ssize_t written = ::write(own, "1000", 4);
    ::close(own);
  }
  forbid_control();
  if (rules < 0 || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return;
  ::syscall(SYS_landlock_restrict_self, rules, 0);
}

void forbid_processes() {
  CallFilter filter;
  for (const long call : {SYS_fork, SYS_vfork, SYS_execve, SYS_execveat}) filter.ends_process(call);
  filter.ends_process_without(SYS_clone, CLONE_THREAD);
  filter.fails(SYS_clone3, ENOSYS);  // its flags cannot be filtered; the C library uses clone then
  const auto self = static_cast<std::uint32_t>(::getpid());
  for (const long call : {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo})
    filter.fails_unless(call, 0, self, self);
  filter.install();
}

}  // namespace zeroproof::verification
