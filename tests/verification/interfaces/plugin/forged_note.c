/* An update that is never done. In a rank of an MPI job it makes pipes of the names of notes, and turns every "fail" that
   arrives into a "pass"; with LEAVES_PIPES it leaves pipes that nobody writes to. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verification/interfaces/capi/zeroproof_plugin.h"

static int32_t update(const zeroproof_call* call) { return call == NULL; }

static char folder[256];

#ifndef LEAVES_PIPES
/* The values of two keys, the second one into the first. */
static void copy_value(char* line, const char* to, const char* from, size_t bytes) {
  char* const target = strstr(line, to);
  const char* const source = target == NULL ? NULL : strstr(target, from);
  if (source != NULL) memcpy(target + strlen(to), source + strlen(from), bytes);
}
static void* forge(void* name) {
  static char line[2][1 << 20];
  char path[300], whole[300];
  const int rank = *(const char*)name - '0';
  size_t size = 0;
  snprintf(path, sizeof(path), "%s/results.%d", folder, rank);
  snprintf(whole, sizeof(whole), "%s/forged.%d", folder, rank);
  if (mkfifo(path, 0600) != 0) return NULL;
  const int from = open(path, O_RDONLY);
  for (ssize_t n; (n = read(from, line[rank] + size, sizeof(line[rank]) - 1 - size)) > 0;)
    size += (size_t)n;
  char* const status = strstr(line[rank], "\"status\":\"fail\"");
  if (status == NULL) return NULL;
  memcpy(status, "\"status\":\"pass\"", 15);
  copy_value(line[rank], "\"trajectory_hash\":\"", "\"reference_trajectory_hash\":\"", 32);
  const int to = open(whole, O_WRONLY | O_CREAT, 0600);
  if (write(to, line[rank], size) == (ssize_t)size) rename(whole, path);
  return NULL;
}
#endif

static const zeroproof_operation operations[] = {{"adamw_update", update}};
static const zeroproof_plugin description = {
    ZEROPROOF_PLUGIN_ABI, sizeof(zeroproof_plugin), "forges", operations, 1, NULL};

const zeroproof_plugin* zeroproof_get_plugin(void) {
  const char* const job = getenv("ZP_JOB_FOLDER");
  if (job == NULL) return &description;
  snprintf(folder, sizeof(folder), "%s", job);
#ifdef LEAVES_PIPES
  const char* const notes[] = {"results.0", "flight.0", "ended.0",
                               "results.1", "flight.1", "ended.1"};
  char path[300];
  for (size_t i = 0; i < sizeof(notes) / sizeof(*notes); ++i) {
    snprintf(path, sizeof(path), "%s/%s", folder, notes[i]);
    mkfifo(path, 0600);
  }
#else
  pthread_t thread;
  pthread_create(&thread, NULL, forge, "0");
  pthread_create(&thread, NULL, forge, "1");
#endif
  return &description;
}
