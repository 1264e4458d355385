/* Plug-ins that misbehave in clip, from its second call that has elements on, and are right in clip_value. MISBEHAVE
   names the function below that this library has. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "tests/verification/interfaces/plugin/clip_plugin.h"

static int calls;

/* Faults: every one after an honest result. */

static volatile int* nowhere = (volatile int*)8;
static int32_t segv(const zeroproof_call* call) {
  (void)call;
  *nowhere = 1;
  return 0;
}
static int32_t aborts(const zeroproof_call* call) {
  (void)call;
  fprintf(stderr, "invariant\x1b[2J broken\n");
  abort();
}
static int32_t exits(const zeroproof_call* call) {
  (void)call;
  exit(0);
}
static int32_t loops(const zeroproof_call* call) {
  (void)call;
  for (volatile int i = 0;; ++i) {
  }
  return 0;
}
static int32_t allocates(const zeroproof_call* call) {
  char* much = malloc((size_t)10 << 30);
  (void)call;
  for (size_t i = 0; i < (size_t)10 << 30; i += 4096) ((volatile char*)much)[i] = 1;
  return much[4096];
}
static int32_t forks(const zeroproof_call* call) {
  (void)call;
  for (;;) fork();
  return 0;
}
/* Processes by other calls than fork(); the last would be a child of the judge. */
static int32_t spawns(const zeroproof_call* call) {
  char* words[] = {"true", NULL};
  (void)call;
  return posix_spawn(NULL, "/bin/true", NULL, NULL, words, NULL);
}
static int32_t clones_sibling(const zeroproof_call* call) {
  (void)call;
  if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL) == 0) _exit(0);
  return 0;
}
static int32_t forks_by_32_bits(const zeroproof_call* call) {
  long returned = 2; /* fork, among the calls of 32 bits */
  (void)call;
  __asm__ volatile("int $0x80" : "+a"(returned) : : "memory", "r8", "r9", "r10", "r11");
  if (returned == 0) _exit(0);
  return 0;
}
static int32_t floods_stdout(const zeroproof_call* call) {
  (void)call;
  for (;;) puts("and another line of it");
  return 0;
}
static int32_t floods_stderr(const zeroproof_call* call) {
  (void)call;
  for (;;) fputs("and another line of it\n", stderr);
  return 0;
}
static int32_t closes(const zeroproof_call* call) {
  (void)call;
  for (int fd = 0; fd < 256; ++fd) close(fd);
  return 0;
}
static int32_t writes_file(const zeroproof_call* call) {
  static char zeros[1 << 20];
  const int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
  (void)call;
  for (int i = 0; i < 100; ++i) {
    if (write(file, zeros, sizeof(zeros)) < 0) return 1;
  }
  return 0;
}
static int32_t writes_behind(const zeroproof_call* call) {
  values(call, 1)[numel_of(call)] = 1;
  return 0;
}
static int32_t writes_before(const zeroproof_call* call) {
  values(call, 1)[-1] = 1;
  return 0;
}
static int32_t writes_input(const zeroproof_call* call) {
  values(call, 0)[0] += 1;
  return 0;
}
static int32_t rounds_up(const zeroproof_call* call) {
  (void)call;
  return fesetround(FE_UPWARD);
}
static int32_t flushes(const zeroproof_call* call) {
  (void)call;
  _mm_setcsr(_mm_getcsr() | 0x8000);
  return 0;
}
static int32_t blocks_signals(const zeroproof_call* call) {
  sigset_t set;
  (void)call;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  return sigprocmask(SIG_BLOCK, &set, NULL);
}
static int32_t says_no(const zeroproof_call* call) {
  snprintf(call->message, call->message_size, "out of registers");
  return 7;
}

/* Attacks on the process of the judge. Each returns 42 if it is refused. */
static int32_t refused(int failed) { return failed ? 42 : 0; }
static int32_t shrinks_memory(const zeroproof_call* call) {
  (void)call;
  return refused(ftruncate(4, 0) != 0);
}
static int32_t kills_judge(const zeroproof_call* call) {
  (void)call;
  return refused(kill(getppid(), SIGKILL) != 0);
}
static int32_t stops_judge(const zeroproof_call* call) {
  (void)call;
  return refused(syscall(SYS_tgkill, getppid(), getppid(), SIGSTOP) != 0);
}
static int32_t limits_judge(const zeroproof_call* call) {
  const struct rlimit none = {0, 0};
  (void)call;
  return refused(prlimit(getppid(), RLIMIT_FSIZE, &none, NULL) != 0);
}
/* True if the call of the kernel fails with EPERM, whatever its arguments are. */
static int forbidden(long returned) { return returned < 0 && errno == EPERM; }
static int32_t slows_judge(const zeroproof_call* call) {
  const pid_t judge = getppid();
  const struct sched_param idle = {0};
  cpu_set_t one;
  (void)call;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  if (sched_setaffinity(0, sizeof(one), &one) != 0) return 0; /* its own is allowed */
  return refused(forbidden(sched_setaffinity(judge, sizeof(one), &one)) &&
                 forbidden(sched_setscheduler(judge, SCHED_IDLE, &idle)) &&
                 forbidden(sched_setparam(judge, &idle)) &&
                 forbidden(setpriority(PRIO_PROCESS, (id_t)judge, 19)) &&
                 forbidden(setpriority(PRIO_PGRP, 0, 0)) &&
                 forbidden(setpriority(PRIO_USER, 0, 0)) &&
                 forbidden(syscall(SYS_ioprio_set, 1, judge, 3 << 13)) &&
                 setpriority(PRIO_PROCESS, 0, 0) == 0);
}
/* A thread of the judge that is not its first, 0 if there is none. */
static pid_t other_thread(void) {
  char folder[32];
  pid_t thread = 0;
  snprintf(folder, sizeof(folder), "/proc/%d/task", (int)getppid());
  DIR* const list = opendir(folder);
  for (const struct dirent* entry; list != NULL && (entry = readdir(list)) != NULL;) {
    const pid_t one = atoi(entry->d_name);
    if (one != 0 && one != getppid()) thread = one;
  }
  if (list != NULL) closedir(list);
  return thread;
}
/* The same by the number of another thread, and what stops or ends it. */
static int32_t reaches_threads(const zeroproof_call* call) {
  const pid_t thread = other_thread();
  const struct sched_param idle = {0};
  const struct rlimit none = {0, 0};
  cpu_set_t before, one, after;
  (void)call;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  if (thread == 0 || sched_getaffinity(thread, sizeof(before), &before) != 0) return 1;
  sched_setaffinity(thread, sizeof(one), &one);
  if (sched_getaffinity(thread, sizeof(after), &after) != 0 || !CPU_EQUAL(&before, &after))
    return 2;
  return refused(forbidden(prlimit(thread, RLIMIT_FSIZE, &none, NULL)) &&
                 forbidden(sched_setscheduler(thread, SCHED_IDLE, &idle)) &&
                 forbidden(sched_setparam(thread, &idle)) &&
                 forbidden(syscall(SYS_sched_setattr, thread, &idle, 0)) &&
                 forbidden(setpriority(PRIO_PROCESS, (id_t)thread, 19)) &&
                 forbidden(syscall(SYS_ioprio_set, 1, thread, 3 << 13)) &&
                 forbidden(syscall(SYS_migrate_pages, thread, 0, NULL, NULL)) &&
                 forbidden(syscall(SYS_move_pages, thread, 0, NULL, NULL, NULL, 0)) &&
                 forbidden(kill(thread, 0)) && forbidden(syscall(SYS_tkill, thread, 0)) &&
                 forbidden(syscall(SYS_tgkill, getppid(), thread, 0)) &&
                 forbidden(syscall(SYS_prctl, 62, 0, thread, 0, 0)));
}
/* By the group, by all processes of the user, and by descriptors of processes. */
static int32_t reaches_groups(const zeroproof_call* call) {
  const int judge = (int)syscall(SYS_pidfd_open, getppid(), 0);
  (void)call;
  return refused(forbidden(kill(-1, 0)) && forbidden(kill(-getpgid(getppid()), 0)) &&
                 forbidden(setpriority(PRIO_PGRP, (id_t)getpgid(getppid()), 0)) &&
                 forbidden(syscall(SYS_ioprio_set, 3, 0, 0)) &&
                 forbidden(syscall(SYS_pidfd_send_signal, judge, 0, NULL, 0)) &&
                 forbidden(syscall(SYS_pidfd_getfd, judge, 1, 0)) &&
                 forbidden(syscall(SYS_process_madvise, judge, NULL, 0, 21, 0)));
}
static int32_t traces_judge(const zeroproof_call* call) {
  (void)call;
  return refused(forbidden(ptrace(PTRACE_SEIZE, getppid(), NULL, NULL)) &&
                 forbidden(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0)) &&
                 forbidden(syscall(SYS_process_vm_writev, getppid(), NULL, 0, NULL, 0, 0)));
}
/* True unless the file can be opened for writing. */
static int closed(const char* path) {
  const int file = open(path, O_WRONLY);
  if (file >= 0) close(file);
  return file < 0;
}
/* Files of the kernel that change the judge and its threads. */
static int32_t opens_judge_files(const zeroproof_call* call) {
  const char* const names[] = {"oom_score_adj", "oom_adj",       "autogroup", "coredump_filter",
                               "clear_refs",    "timerslack_ns", "comm",      "sched"};
  char path[64];
  (void)call;
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); ++i) {
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)getppid(), names[i]);
    if (!closed(path)) return 1;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)getppid(), (int)other_thread(),
             names[i]);
    if (!closed(path)) return 2;
  }
  return refused(closed("/proc/sys/kernel/core_pattern") && closed("/proc/sysrq-trigger") &&
                 closed("/sys/fs/cgroup/cgroup.procs") &&
                 closed("/sys/fs/cgroup/unified/cgroup.procs") && closed("/sys/kernel/profiling"));
}
/* Memory runs out: the kernel is to end this process, which cannot change that. */
static int32_t wants_to_live(const zeroproof_call* call) {
  FILE* const own = fopen("/proc/self/oom_score_adj", "r");
  int score = 0;
  (void)call;
  if (own == NULL || fscanf(own, "%d", &score) != 1) score = -1;
  if (own != NULL) fclose(own);
  return refused(score == 1000 && closed("/proc/self/oom_score_adj"));
}
/* The terminal that ZP_TEST_TERMINAL names. */
static int32_t writes_terminal(const zeroproof_call* call) {
  struct termios settings;
  const int terminal = open(getenv("ZP_TEST_TERMINAL"), O_RDONLY | O_NOCTTY);
  (void)call;
  return refused(closed(getenv("ZP_TEST_TERMINAL")) &&
                 (terminal < 0 || tcgetattr(terminal, &settings) != 0));
}
/* Events that stop the judge, or what it opens. */
static int32_t watches_judge(const zeroproof_call* call) {
  (void)call;
  return refused(forbidden(syscall(SYS_perf_event_open, NULL, getppid(), -1, -1, 0)) &&
                 forbidden(syscall(SYS_bpf, 0, NULL, 0)) &&
                 forbidden(syscall(SYS_fanotify_init, 0, 0)));
}
static int32_t stops_terminal(const zeroproof_call* call) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  const char key = 3;
  (void)call;
  return refused(forbidden(tcflow(terminal, TCOOFF)) && forbidden(ioctl(terminal, TIOCSTI, &key)) &&
                 forbidden(ioctl(terminal, TIOCSETD, NULL)) &&
                 forbidden(ioctl(terminal, TIOCVHANGUP, NULL)));
}
static int32_t enlarges_memory(const zeroproof_call* call) {
  (void)call;
  ftruncate(4, ((off_t)64 << 20) - 4096);
  return 0;
}
/* A thread that rewrites the report that ZP_TEST_REPORT names as soon as it is there. */
static void* rewrite(void* unused) {
  const char* const report = getenv("ZP_TEST_REPORT");
  (void)unused;
  for (;;) {
    const int file = report == NULL ? -1 : open(report, O_WRONLY | O_TRUNC);
    if (file >= 0) return dprintf(file, "rewritten"), NULL;
  }
}
static int32_t rewrites_report(const zeroproof_call* call) {
  pthread_t thread;
  (void)call;
  return calls == 2 ? pthread_create(&thread, NULL, rewrite, NULL) : 0;
}
static int32_t opens_judge_memory(const zeroproof_call* call) {
  char path[32];
  (void)call;
  snprintf(path, sizeof(path), "/proc/%d/mem", (int)getppid());
  return refused(open(path, O_RDWR) < 0);
}
/* The socket of the harness sends SIGKILL to the judge when it has data. */
static int32_t owns_signal(const zeroproof_call* call) {
  const int owner[2] = {0, getppid()};
  (void)call;
  return refused(forbidden(fcntl(3, F_SETOWN, getppid())) &&
                 forbidden(fcntl(3, F_SETOWN_EX, owner)) &&
                 forbidden(ioctl(3, 0x8901 /* FIOSETOWN */, &owner[1])) &&
                 forbidden(ioctl(3, 0x8902 /* SIOCSPGRP */, &owner[1])));
}
static int32_t calls_x32(const zeroproof_call* call) {
  (void)call;
  return refused(syscall(0x40000000 | SYS_getpid) < 0);
}

/* Work that goes on after the call. */
static float* late_target;
static int late_delay;
static void* write_later(void* unused) {
  (void)unused;
  usleep((useconds_t)late_delay);
  *(volatile float*)late_target = 3;
  return NULL;
}
static int32_t start_late_write(const zeroproof_call* call, int delay) {
  pthread_t thread;
  late_target = values(call, 1);
  late_delay = delay;
  if (pthread_create(&thread, NULL, write_later, NULL) != 0) return 1;
  return pthread_detach(thread);
}
static int32_t writes_late(const zeroproof_call* call) { return start_late_write(call, 60); }
/* Of the last call of a sweep, after which nothing is called that could notice. Late enough that its results have been
   taken also where other processes want the core, and before zeroproof has ceased to look (20 ms). */
static int32_t writes_later(const zeroproof_call* call) {
  const int is_last = call->num_threads == 3 && zeroproof_integer(call, "in_place", 0) != 0;
  return is_last ? start_late_write(call, 8000) : 0;
}

/* All are mentioned, so that a library with one of them does not complain about the others. */
static int32_t (*const all[])(const zeroproof_call*) = {segv,
                                                        aborts,
                                                        exits,
                                                        loops,
                                                        allocates,
                                                        forks,
                                                        spawns,
                                                        clones_sibling,
                                                        forks_by_32_bits,
                                                        floods_stdout,
                                                        floods_stderr,
                                                        closes,
                                                        writes_file,
                                                        writes_behind,
                                                        writes_before,
                                                        writes_input,
                                                        rounds_up,
                                                        flushes,
                                                        blocks_signals,
                                                        says_no,
                                                        shrinks_memory,
                                                        kills_judge,
                                                        stops_judge,
                                                        limits_judge,
                                                        slows_judge,
                                                        reaches_threads,
                                                        reaches_groups,
                                                        traces_judge,
                                                        opens_judge_files,
                                                        wants_to_live,
                                                        writes_terminal,
                                                        watches_judge,
                                                        stops_terminal,
                                                        enlarges_memory,
                                                        opens_judge_memory,
                                                        owns_signal,
                                                        calls_x32,
                                                        writes_late,
                                                        writes_later,
                                                        rewrites_report};

static int32_t clip(const zeroproof_call* call) {
  (void)all;
  honest(call);
  if (numel_of(call) == 0 || ++calls < 2) return 0;
  return MISBEHAVE(call);
}
