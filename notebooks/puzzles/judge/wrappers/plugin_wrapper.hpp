#pragma once
// A plug-in for zeroproof verify with one operation: PUZZLE_PLUGIN("clip_coef", its function).

#include "wrapper.hpp"
#include "zeroproof_plugin.h"

namespace zeroproof::wrapper {

template <class T>
T* data(const zeroproof_call* call, int operand) {
  return static_cast<T*>(call->operands[operand].tensor.data);
}

inline std::size_t size(const zeroproof_call* call) {
  return static_cast<std::size_t>(call->operands[0].tensor.shape[0]);
}

/// These operations never reject a whole call, so every exception is an error.
template <class Call>
std::int32_t whole(const zeroproof_call* call, Call run) {
  return outcome_of(run, call->message, call->message_size);
}

/// 1 if the function rejects the arguments of one element. Other exceptions propagate.
template <class Call>
std::uint32_t refuses(Call call) {
  try {
    call();
    return 0;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    return 1;
  }
}

}  // namespace zeroproof::wrapper

#define PUZZLE_PLUGIN(operation, function)                                   \
  extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) {            \
    static const zeroproof_operation operations[] = {{operation, function}}; \
    static const zeroproof_plugin description = {ZEROPROOF_PLUGIN_ABI,       \
                                                 sizeof(zeroproof_plugin),   \
                                                 "mine",                     \
                                                 operations,                 \
                                                 1,                          \
                                                 nullptr,                    \
                                                 nullptr,                    \
                                                 0,                          \
                                                 0};                         \
    return &description;                                                     \
  }
