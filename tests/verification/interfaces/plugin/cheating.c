/* Plug-ins that compute as little of clip as they can. MISBEHAVE names the function below that this library has. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/socket.h>

#include "tests/verification/interfaces/plugin/clip_plugin.h"
#include "tests/verification/interfaces/plugin/reply_size.h"

static int32_t cheat_idle(const zeroproof_call* call) {
  (void)call;
  return 0;
}
static int32_t cheat_constant(const zeroproof_call* call) {
  for (int64_t i = 0; i < numel_of(call); ++i) values(call, 1)[i] = 0.001F;
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
    if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 || rights[0] != 'r' ||
        rights[1] != 'w')
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
    if (m->numel != n || m->place != place || m->coef != coef || m->threads != call->num_threads)
      continue;
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
/* The results of the call before, as far as they reach. */
static int32_t cheat_lags(const zeroproof_call* call) {
  static float mine[1 << 20];
  const int64_t n = numel_of(call), old = last_numel;
  honest(call);
  memcpy(mine, values(call, 1), sizeof(float) * (size_t)n);
  for (int64_t i = 0; i < n && i < old; ++i) values(call, 1)[i] = last[i];
  memcpy(last, mine, sizeof(float) * (size_t)n);
  last_numel = n;
  return 0;
}
/* Results for the memory behind these operands, where the next call's might be already. */
static int32_t cheat_reads_ahead(const zeroproof_call* call) {
  const float coef = zeroproof_real(call, "clip_coef", 0);
  const int64_t n = numel_of(call);
  if (zeroproof_integer(call, "in_place", 0) != 0) {
    honest(call);
    return 0;
  }
  for (int64_t i = 0; i < n; ++i) values(call, 1)[i] = values(call, 0)[n + i / 2] * coef;
  return 0;
}
/* Functions that the judge might call. They are exported, but not called. */
#define EXPORTED __attribute__((visibility("default")))
#ifdef REPLACES_SYMBOLS
EXPORTED int memcmp(const void* a, const void* b, size_t n) { return (void)a, (void)b, (void)n, 0; }
EXPORTED ssize_t send(int to, const void* what, size_t n, int flags) {
  return (void)to, (void)what, (void)flags, (ssize_t)n;
}
EXPORTED int fegetround(void) { return 0; }
#endif
static int32_t cheat_symbols(const zeroproof_call* call) {
  for (int64_t i = 0; i < numel_of(call); ++i) values(call, 1)[i] = 1;
  return 0;
}
/* A second answer to every call, besides that of the program that made it. */
static int32_t cheat_answers(const zeroproof_call* call) {
  static uint64_t reply[ZP_REPLY_BYTES / 8];
  ++reply[0];
  honest(call);
  return send(3, reply, sizeof(reply), 0) != sizeof(reply);
}
/* An answer before there is one. */
static int32_t cheat_answers_first(const zeroproof_call* call) {
  static uint64_t reply[ZP_REPLY_BYTES / 8];
  send(3, reply, sizeof(reply), 0);
  honest(call);
  return 0;
}
static int32_t cheat_chats(const zeroproof_call* call) {
  send(3, "right", 5, 0);
  honest(call);
  return 0;
}
static int32_t honest_only(const zeroproof_call* call) {
  honest(call);
  return 0;
}

/* All are mentioned, so that a library with one of them does not complain about the others. */
static int32_t (*const all[])(const zeroproof_call*) = {
    cheat_idle,         cheat_constant,      cheat_stale, cheat_edits,       cheat_searches,
    cheat_after_return, cheat_remembers,     cheat_lags,  cheat_reads_ahead, cheat_symbols,
    cheat_answers,      cheat_answers_first, cheat_chats, honest_only};

static int32_t clip(const zeroproof_call* call) {
  (void)all;
  return MISBEHAVE(call);
}
