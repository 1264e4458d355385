/* What the libraries of this folder share: a right clip, and a right clip_value. Who includes this defines
   `static int32_t clip(const zeroproof_call*)`. */
#ifndef ZP_CLIP_PLUGIN_H
#define ZP_CLIP_PLUGIN_H

#include "verification/interfaces/capi/zeroproof_plugin.h"

static float* values(const zeroproof_call* call, int operand) {
  return (float*)call->operands[operand].tensor.data;
}
static int64_t numel_of(const zeroproof_call* call) { return zeroproof_numel(&call->operands[0]); }

static void honest(const zeroproof_call* call) {
  const float coef = zeroproof_real(call, "clip_coef", 0);
  for (int64_t i = 0; i < numel_of(call); ++i) values(call, 1)[i] = values(call, 0)[i] * coef;
}

static int32_t clip(const zeroproof_call* call);

static int32_t clip_value(const zeroproof_call* call) {
  const float c = zeroproof_real(call, "clip_value", 0);
  float* g = values(call, 0);
  for (int64_t i = 0; i < numel_of(call); ++i) g[i] = g[i] > c ? c : (g[i] < -c ? -c : g[i]);
  return 0;
}

static const zeroproof_operation operations[] = {{"clip", clip}, {"clip_value", clip_value}};
#ifdef CHOOSES
int32_t supports(const zeroproof_call* call);
#define SUPPORTS supports
#else
#define SUPPORTS NULL
#endif
#ifdef OLD_STRUCT /* as it was when the last field was not there yet, and something else follows it */
#define STRUCT_SIZE ZEROPROOF_PLUGIN_LEAST_SIZE
#else
#define STRUCT_SIZE sizeof(zeroproof_plugin)
#endif
static const zeroproof_plugin description = {ZEROPROOF_PLUGIN_ABI, STRUCT_SIZE, "odd",
                                             operations,           2,           SUPPORTS};

const zeroproof_plugin* zeroproof_get_plugin(void) { return &description; }

#endif
