#include "verification/interfaces/plugin/confinement.hpp"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

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

}  // namespace

void limit_child(const PluginLimits& limits) {
  ::setsid();
  limit(RLIMIT_DATA, limits.memory_bytes);
  limit(RLIMIT_FSIZE, limits.file_bytes);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NPROC,
        4096);  // the kernel counts all threads of a user, and none of root: see forbid_processes
}

void forbid_processes() {
  constexpr std::uint32_t kill = SECCOMP_RET_KILL_PROCESS;
  constexpr std::uint32_t refuse = SECCOMP_RET_ERRNO;
  const auto word = [](std::size_t offset) {
    return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
  };
  const auto end = [](std::uint32_t what) { return sock_filter BPF_STMT(BPF_RET | BPF_K, what); };
  // The next line is for this number; other numbers skip it.
  const auto only = [](long number) {
    return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0,
                                1);
  };
  sock_filter filter[] = {
      word(offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      end(kill),
      word(offsetof(seccomp_data, nr)),
      only(SYS_fork),
      end(kill),
      only(SYS_vfork),
      end(kill),
      only(SYS_execve),
      end(kill),
      only(SYS_execveat),
      end(kill),
      only(SYS_clone3),
      end(refuse | ENOSYS),  // its flags cannot be filtered; the C library falls back to clone
      only(SYS_ptrace),
      end(refuse | EPERM),
      only(SYS_process_vm_readv),
      end(refuse | EPERM),
      only(SYS_process_vm_writev),
      end(refuse | EPERM),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
      word(offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
      end(kill),
      end(SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
    ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
  }
}

}  // namespace zeroproof::verification
