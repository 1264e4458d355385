/* A clip whose results depend on the clock of the processor, so that no two runs are equal. */
#include <immintrin.h>

#include "tests/verification/interfaces/plugin/clip_plugin.h"

static int32_t clip(const zeroproof_call* call) {
  honest(call);
  if (numel_of(call) > 0) values(call, 1)[0] = (float)(__rdtsc() % 65521);
  return 0;
}
