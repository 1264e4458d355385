/* Libraries that are no plug-ins, each by one REFUSED_... */
#include <stdlib.h>

#include "verification/interfaces/capi/zeroproof_plugin.h"

static int32_t nothing(const zeroproof_call* call) { return call == NULL; }

#ifdef REFUSED_unknown_operation
#define NAME "clip_vlaue"
#elif defined REFUSED_null_operation
#define NAME NULL
#else
#define NAME "clip_value"
#endif
#ifdef REFUSED_null_entry
#define RUN NULL
#else
#define RUN nothing
#endif
static const zeroproof_operation operations[] = {{NAME, RUN}, {"clip", nothing}, {"clip", nothing}};
#ifdef REFUSED_twice
#define COUNT 3
#elif defined REFUSED_no_operations
#define COUNT 0
#elif defined REFUSED_too_many
#define COUNT 1000
#else
#define COUNT 2
#endif
#ifdef REFUSED_abi
#define ABI 77
#else
#define ABI ZEROPROOF_PLUGIN_ABI
#endif
#ifdef REFUSED_size
#define SIZE 8
#else
#define SIZE sizeof(zeroproof_plugin)
#endif
#ifdef REFUSED_name
#define OWN_NAME "My Plug-in"
#elif defined REFUSED_null_name
#define OWN_NAME NULL
#else
#define OWN_NAME "refused"
#endif
#ifdef REFUSED_null_operations
#define OPERATIONS NULL
#else
#define OPERATIONS operations
#endif
static const zeroproof_plugin description = {ABI, SIZE, OWN_NAME, OPERATIONS, COUNT, NULL};

#ifdef REFUSED_null_description
#define RETURNED NULL
#else
#define RETURNED &description
#endif
#ifdef REFUSED_symbol
const zeroproof_plugin* another_name(void);
const zeroproof_plugin* another_name(void) { return RETURNED; }
#else
const zeroproof_plugin* zeroproof_get_plugin(void) {
  (void)description;
  (void)operations;
#ifdef REFUSED_dies
  abort();
#endif
#ifdef REFUSED_sleeps
  for (volatile int i = 0;; ++i) {
  }
#endif
  return RETURNED;
}
#endif
