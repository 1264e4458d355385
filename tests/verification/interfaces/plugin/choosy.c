/* A clip that takes some calls and declines others. CHOOSES: the condition under which it takes one; `asked` counts calls
   of clip that it was asked about. */
#include <stdio.h>

#include "tests/verification/interfaces/plugin/clip_plugin.h"

static int asked;

static int32_t clip(const zeroproof_call* call) {
  if (!(CHOOSES)) return 9; /* it was not to be asked for this */
  honest(call);
  return 0;
}

int32_t supports(const zeroproof_call* call) {
  for (int32_t k = 0; k < call->num_operands; ++k) {
    if (call->operands[k].tensor.data != NULL || call->operands[k].tensor.dtype.bits != 32)
      return 1;
  }
  if (strcmp(call->operation, "clip") != 0) return 1;
  ++asked;
  if (CHOOSES) return 1;
  snprintf(call->message, call->message_size, "not this");
  return 0;
}
