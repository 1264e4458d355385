/* Plug-ins that misbehave in clip, from its second call that has elements on, and are right in clip_value. MISBEHAVE names
   the function below that this library has. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <fenv.h>
#include <immintrin.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "verification/capi/zeroproof_plugin.h"

static int calls;

static float* values(const zeroproof_call* call, int operand) {
  return (float*)call->operands[operand].tensor.data;
}
static int64_t numel_of(const zeroproof_call* call) { return zeroproof_numel(&call->operands[0]); }

static void honest(const zeroproof_call* call) {
  const float coef = zeroproof_real(call, "clip_coef", 0);
  for (int64_t i = 0; i < numel_of(call); ++i) values(call, 1)[i] = values(call, 0)[i] * coef;
}

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
/* Of the last call of a sweep, after which nothing is called that could notice. */
static int32_t writes_later(const zeroproof_call* call) {
  const int is_last = call->num_threads == 3 && zeroproof_integer(call, "in_place", 0) != 0;
  return is_last ? start_late_write(call, 2000) : 0;
}

/* Cheats: they compute as little as they can. */

static int32_t cheat_idle(const zeroproof_call* call) {
  (void)call;
  return 0;
}
static int32_t cheat_constant(const zeroproof_call* call) {
  for (int64_t i = 0; i < numel_of(call); ++i) values(call, 1)[i] = 0;
  return 0;
}
/* The outputs of the call before. */
static float last[1 << 20];
static int64_t last_numel;
static int32_t cheat_stale(const zeroproof_call* call) {
  if (last_numel == 0) {
    honest(call);
    last_numel = numel_of(call);
    memcpy(last, values(call, 1), sizeof(float) * (size_t)last_numel);
  }
  for (int64_t i = 0; i < numel_of(call); ++i) values(call, 1)[i] = last[i % last_numel];
  return 0;
}
/* Inputs made such that nothing is left to compute. */
static int32_t cheat_edits(const zeroproof_call* call) {
  for (int64_t i = 0; i < numel_of(call); ++i) values(call, 1)[i] = values(call, 0)[i] = 0;
  return 0;
}
/* The first elements computed, the rest looked for in all memory this process has. */
static int32_t cheat_searches(const zeroproof_call* call) {
  enum { needle = 8 };
  const float coef = zeroproof_real(call, "clip_coef", 0);
  float first[needle];
  const int64_t n = numel_of(call);
  if (n < needle) {
    honest(call);
    return 0;
  }
  for (int i = 0; i < needle; ++i) first[i] = values(call, 0)[i] * coef;
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
    unsigned long from = 0, to = 0;
    char rights[5];
    if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 || rights[0] != 'r' || rights[1] != 'w')
      continue;
    if (to - from > (unsigned long)64 << 20) continue;
    for (unsigned long at = from; at + 4 * (unsigned long)n <= to; at += 4) {
      const void* here = (const void*)at;
      if (here == (void*)first || memcmp(here, first, sizeof(first)) != 0) continue;
      memcpy(values(call, 1), here, sizeof(float) * (size_t)n);
    }
  }
  if (maps != NULL) fclose(maps);
  return 0;
}
/* A thread that computes after the function has returned. */
static zeroproof_call kept;
static float* kept_from;
static float* kept_to;
static int64_t kept_numel;
static float kept_coef;
static void* compute_later(void* unused) {
  (void)unused;
  usleep(100);
  for (int64_t i = 0; i < kept_numel; ++i) kept_to[i] = kept_from[i] * kept_coef;
  return NULL;
}
static int32_t cheat_after_return(const zeroproof_call* call) {
  pthread_t thread;
  kept_from = values(call, 0);
  kept_to = values(call, 1);
  kept_numel = numel_of(call);
  kept_coef = zeroproof_real(call, "clip_coef", 0);
  if (pthread_create(&thread, NULL, compute_later, NULL) != 0) return 1;
  return pthread_detach(thread);
}
/* What was computed for a call that looked the same. */
typedef struct {
  int64_t numel;
  uintptr_t place;
  float coef;
  int threads;
  float* result;
} memory;
static memory memories[4096];
static int num_memories;
static int32_t cheat_remembers(const zeroproof_call* call) {
  const int64_t n = numel_of(call);
  const uintptr_t place = (uintptr_t)values(call, 0) % 64 * 64 + (uintptr_t)values(call, 1) % 64;
  const float coef = zeroproof_real(call, "clip_coef", 0);
  for (int i = 0; i < num_memories; ++i) {
    const memory* m = &memories[i];
    if (m->numel != n || m->place != place || m->coef != coef || m->threads != call->num_threads) continue;
    if (n > 0) memcpy(values(call, 1), m->result, sizeof(float) * (size_t)n);
    return 0;
  }
  honest(call);
  if (num_memories == 4096) return 1;
  memory* m = &memories[num_memories++];
  *m = (memory){n, place, coef, call->num_threads, malloc(sizeof(float) * (size_t)n + 1)};
  if (n > 0) memcpy(m->result, values(call, 1), sizeof(float) * (size_t)n);
  return 0;
}
static int32_t honest_only(const zeroproof_call* call) {
  honest(call);
  return 0;
}

typedef int32_t (*misbehaviour)(const zeroproof_call*);
/* Every one is used somewhere, so that a library with one of them does not complain about the others. */
static const misbehaviour all[] = {segv,
                                   aborts,
                                   exits,
                                   loops,
                                   allocates,
                                   forks,
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
                                   writes_late,
                                   writes_later,
                                   cheat_idle,
                                   cheat_constant,
                                   cheat_stale,
                                   cheat_edits,
                                   cheat_searches,
                                   cheat_after_return,
                                   cheat_remembers,
                                   honest_only};

static int32_t clip(const zeroproof_call* call) {
  (void)all;
  if (CHEATS) return MISBEHAVE(call);
  honest(call);
  if (numel_of(call) == 0 || ++calls < 2) return 0;
  return MISBEHAVE(call);
}

static int32_t clip_value(const zeroproof_call* call) {
  const float c = zeroproof_real(call, "clip_value", 0);
  float* g = values(call, 0);
  for (int64_t i = 0; i < numel_of(call); ++i) g[i] = g[i] > c ? c : (g[i] < -c ? -c : g[i]);
  return 0;
}

static const zeroproof_operation operations[] = {{"clip", clip}, {"clip_value", clip_value}};
static const zeroproof_plugin description = {ZEROPROOF_PLUGIN_ABI, sizeof(zeroproof_plugin), "odd",
                                             operations, 2};

const zeroproof_plugin* zeroproof_get_plugin(void) { return &description; }
