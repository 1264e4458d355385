/* An update that is never done: it dies in its fifth call, or, with DECLINES, is said to be not supported. */
#include <stdlib.h>

#include "verification/interfaces/capi/zeroproof_plugin.h"

static int32_t update(const zeroproof_call* call) {
  static int calls;
  (void)call;
  if (++calls == 5) abort();
  return 0;
}

#ifdef DECLINES
static int32_t supports(const zeroproof_call* call) { return call == NULL; }
#define SUPPORTS supports
#else
#define SUPPORTS NULL
#endif
static const zeroproof_operation operations[] = {{"adamw_update", update}};
static const zeroproof_plugin description = {
    ZEROPROOF_PLUGIN_ABI, sizeof(zeroproof_plugin), "dies", operations, 1, SUPPORTS};

const zeroproof_plugin* zeroproof_get_plugin(void) { return &description; }
