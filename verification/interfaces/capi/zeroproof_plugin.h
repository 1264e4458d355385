/**
 * \file
 * User kernels under zeroproof's judge: a shared library with one exported function, in C99 or any
 * language with a C interface.
 *
 *     zeroproof verify op --plugin ./libmine.so
 *
 * The library is loaded by a child process of zeroproof. Its operations are called with the same
 * inputs as zeroproof's own implementations, and every output is compared with the reference, as
 * bits with one NaN value. `zeroproof explain adamw_update` prints the specification of an
 * operation, operand by operand; all operations a library can have, their operands and settings,
 * are listed in verification/interfaces/plugin/README.md.
 *
 * The child process contains faults and accidents: a crash, an endless loop, a write outside of a
 * buffer becomes a verdict, and the next case is not affected. It is no sandbox: the library runs
 * with the rights of the user. Load only libraries that you would run directly.
 *
 * Every structure may grow at its end in later versions, never change or lose a field;
 * ZEROPROOF_PLUGIN_ABI is raised if that is not enough, and libraries of another version are
 * refused.
 */
#ifndef ZEROPROOF_PLUGIN_H
#define ZEROPROOF_PLUGIN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZEROPROOF_PLUGIN_ABI 1

/** Numbers of DLPack: the code of an element's type, and where memory is. */
enum {
  ZEROPROOF_INT = 0,
  ZEROPROOF_UINT = 1,
  ZEROPROOF_FLOAT = 2,
  ZEROPROOF_BFLOAT = 4,
  ZEROPROOF_FLOAT8_E4M3FN = 10,
  ZEROPROOF_FLOAT8_E5M2 = 12
};
enum { ZEROPROOF_CPU = 1, ZEROPROOF_CUDA = 2, ZEROPROOF_SIMULATED = 12 /* kDLExtDev */ };

typedef struct zeroproof_dtype {
  uint8_t code;   /**< one of the codes above */
  uint8_t bits;   /**< of one element: 8, 16, 32, 64 */
  uint16_t lanes; /**< always 1 */
} zeroproof_dtype;

/** The layout of DLTensor. Memory belongs to zeroproof and is valid until the function returns. */
typedef struct zeroproof_tensor {
  void* data;          /**< of element 0; aligned to an element, and often to no more */
  int32_t device_type; /**< the library's device_type: ZEROPROOF_CPU by default */
  int32_t device_id;   /**< 0 */
  int32_t ndim;        /**< 1, or 2 where an element of the call has several values */
  zeroproof_dtype dtype;
  int64_t* shape;       /**< [ndim]; the first may be 0 */
  int64_t* strides;     /**< [ndim], in elements; always dense */
  uint64_t byte_offset; /**< 0 */
} zeroproof_tensor;

/** Access of a function to an operand. Outputs hold NaN (all bits set) before the call. */
enum { ZEROPROOF_IN = 0, ZEROPROOF_OUT = 1, ZEROPROOF_IN_OUT = 2 };

typedef struct zeroproof_operand {
  const char* name; /**< "grad", "exp_avg" */
  int32_t access;
  zeroproof_tensor tensor;
} zeroproof_operand;

/** fp32 settings are widened to double, which is exact: casting one back gives its bits. */
enum { ZEROPROOF_REAL = 0, ZEROPROOF_INTEGER = 1, ZEROPROOF_UNSIGNED = 2 };

typedef struct zeroproof_setting {
  const char* name; /**< "t", "lr", "scalar.step_size" */
  int32_t kind;
  union {
    double real;
    int64_t integer;
    uint64_t word;
  } value;
} zeroproof_setting;

typedef struct zeroproof_call {
  uint32_t struct_size;  /**< sizeof(zeroproof_call) of the caller */
  int32_t num_threads;   /**< threads that the function may use, at least 1 */
  const char* operation; /**< "adamw_update" */
  int32_t num_operands;
  int32_t num_settings;
  const zeroproof_operand* operands; /**< [num_operands], in the order of the documentation */
  const zeroproof_setting* settings; /**< [num_settings] */
  void* stream;                      /**< of device tensors; NULL for host tensors */
  char* message;         /**< buffer for the reason of a failure: one sentence ending in NUL */
  uint64_t message_size; /**< bytes at `message` */
} zeroproof_call;

/**
 * Computes one call, on any thread; calls do not overlap. Returns 0 on success; any other value is
 * the verdict "error". It must leave inputs, all memory outside of the operands, the floating-point
 * environment and the signal mask unchanged, start no processes, and not access memory after it
 * returns. Threads it starts may stay alive and wait.
 */
typedef int32_t (*zeroproof_function)(const zeroproof_call* call);

/**
 * Returns 1 if the library computes this call, else 0, with an optional reason in `message`. All
 * fields are those of the call, but data and stream are NULL. Unsupported calls are skipped, with
 * the reason. The answer must be the same every time.
 */
typedef int32_t (*zeroproof_supports)(const zeroproof_call* call);

typedef struct zeroproof_operation {
  /** A name of the documentation; cases of operations that are not listed are skipped. */
  const char* operation;
  zeroproof_function run;
} zeroproof_operation;

/**
 * A whole optimizer step in one call, of all ranks at once: from the micro-batch gradients to the
 * parameters. The call's operation is "step"; its operands and settings are listed in
 * verification/interfaces/plugin/README.md. In a skipped step, operands that are input and output
 * must not change (except the loss scaler), and grad_norm and clip_coef must stay NaN, their value
 * before the call.
 */
typedef zeroproof_function zeroproof_step;

/**
 * Description of a library.
 *
 * Device tensors: with ZEROPROOF_CUDA all operands of all calls are in the memory of a GPU, with
 * ZEROPROOF_SIMULATED in that of the simulated device of build/zeroproof-sim (zeroproof_kernel.h:
 * ZEROPROOF_DEVICE is the one that the library is built for). `stream` is a cudaStream_t, or the
 * simulated device's, on which the operands are filled; zeroproof waits for the work on this stream
 * after the function has returned, and for no other stream. The function need not wait. Settings,
 * shapes and strides are in host memory. The process opens the device before it loads the library.
 */
typedef struct zeroproof_plugin {
  uint32_t abi;         /**< ZEROPROOF_PLUGIN_ABI */
  uint32_t struct_size; /**< sizeof(zeroproof_plugin) */
  /** Of 1 to 32 lower-case letters, digits, '_', '-' and '.': used in case ids. */
  const char* name;
  /** May be NULL, with num_operations 0, if there is a step. */
  const zeroproof_operation* operations;
  uint64_t num_operations;
  /* Read if struct_size includes them. */
  zeroproof_supports supports; /**< NULL: every call of its operations is supported */
  zeroproof_step step;         /**< NULL: no whole steps */
  int32_t device_type;         /**< memory of all tensors; 0 is ZEROPROOF_CPU */
  int32_t reserved;            /**< 0 */
} zeroproof_plugin;

/** Smallest struct_size: the fields of the first version. */
#define ZEROPROOF_PLUGIN_LEAST_SIZE offsetof(zeroproof_plugin, supports)

/**
 * The one symbol a library exports. The result belongs to the library and must stay valid and
 * unchanged.
 */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const zeroproof_plugin*
zeroproof_get_plugin(void);

/* Helpers, compiled into the library. */

/** The setting of that name, NULL if the call has none. */
static inline const zeroproof_setting* zeroproof_find_setting(const zeroproof_call* call,
                                                              const char* name) {
  for (int32_t i = 0; i < call->num_settings; ++i) {
    if (strcmp(call->settings[i].name, name) == 0) return &call->settings[i];
  }
  return NULL;
}

/** The value of a number setting, as fp32; `absent` if the call has none. */
static inline float zeroproof_real(const zeroproof_call* call, const char* name, float absent) {
  const zeroproof_setting* setting = zeroproof_find_setting(call, name);
  return setting != NULL && setting->kind == ZEROPROOF_REAL ? (float)setting->value.real : absent;
}

/** The value of a setting that is a count or a flag; `absent` if the call has none. */
static inline int64_t zeroproof_integer(const zeroproof_call* call, const char* name,
                                        int64_t absent) {
  const zeroproof_setting* setting = zeroproof_find_setting(call, name);
  return setting != NULL && setting->kind != ZEROPROOF_REAL ? setting->value.integer : absent;
}

/** The operand of that name, NULL if the call has none. */
static inline const zeroproof_operand* zeroproof_find_operand(const zeroproof_call* call,
                                                              const char* name) {
  for (int32_t i = 0; i < call->num_operands; ++i) {
    if (strcmp(call->operands[i].name, name) == 0) return &call->operands[i];
  }
  return NULL;
}

/** Elements of an operand: the product of its shape. */
static inline int64_t zeroproof_numel(const zeroproof_operand* operand) {
  int64_t numel = 1;
  for (int32_t i = 0; i < operand->tensor.ndim; ++i) numel *= operand->tensor.shape[i];
  return numel;
}

#ifdef __cplusplus
}
#endif

#endif
