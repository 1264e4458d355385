/* Functions of glibc 2.30 and later that g++'s headers and libstdc++ use, for a program that is linked for glibc 2.28
 * (build-wheel). */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/random.h>
#include <time.h>

/* 2.32: false lets the library use atomic reference counts always. */
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

/* 2.30. May return early if the system's clock is set meanwhile; callers wait in a loop. */
__attribute__((visibility("hidden"))) int pthread_cond_clockwait(pthread_cond_t* condition,
                                                                 pthread_mutex_t* mutex,
                                                                 clockid_t clock,
                                                                 const struct timespec* until) {
  const long nanoseconds_per_second = 1000000000L;
  struct timespec now, target;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &target);
  target.tv_sec += until->tv_sec - now.tv_sec;
  target.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (target.tv_nsec < 0) {
    target.tv_nsec += nanoseconds_per_second;
    --target.tv_sec;
  } else if (target.tv_nsec >= nanoseconds_per_second) {
    target.tv_nsec -= nanoseconds_per_second;
    ++target.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &target);
}

/* 2.36, of std::random_device. */
__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != (ssize_t)sizeof value) {
  }
  return value;
}

/* 2.32 */
__attribute__((visibility("hidden"))) const char* sigabbrev_np(int signal) {
  switch (signal) {
    case SIGABRT:
      return "ABRT";
    case SIGALRM:
      return "ALRM";
    case SIGBUS:
      return "BUS";
    case SIGFPE:
      return "FPE";
    case SIGHUP:
      return "HUP";
    case SIGILL:
      return "ILL";
    case SIGINT:
      return "INT";
    case SIGKILL:
      return "KILL";
    case SIGPIPE:
      return "PIPE";
    case SIGQUIT:
      return "QUIT";
    case SIGSEGV:
      return "SEGV";
    case SIGSYS:
      return "SYS";
    case SIGTERM:
      return "TERM";
    case SIGTRAP:
      return "TRAP";
    case SIGUSR1:
      return "USR1";
    case SIGUSR2:
      return "USR2";
    case SIGXCPU:
      return "XCPU";
    case SIGXFSZ:
      return "XFSZ";
    default:
      return 0;
  }
}
