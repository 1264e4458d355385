#pragma once
// Shared by the kernels of this folder: operands and settings of a call, and the library's
// description. A library has one deviation, which the environment variable ZP_KERNEL names at load;
// none without it.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "verification/interfaces/capi/zeroproof_plugin.h"

namespace kernels {

/// The deviation of the library, which is also its name.
inline const char* kind() {
  const char* given = std::getenv("ZP_KERNEL");
  return given == nullptr ? "right" : given;
}
inline bool chosen(const char* name) { return std::strcmp(kind(), name) == 0; }

template <class T = float>
T* data(const zeroproof_call* call, int operand) {
  return static_cast<T*>(call->operands[operand].tensor.data);
}

inline std::int64_t numel(const zeroproof_call* call) {
  return zeroproof_numel(&call->operands[0]);
}
inline float real(const zeroproof_call* call, const char* name) {
  return zeroproof_real(call, name, NAN);
}
inline bool flag(const zeroproof_call* call, const char* name) {
  return zeroproof_integer(call, name, 0) != 0;
}

/// An unsigned setting of 64 bits; 0 if the call has none of that name.
inline std::uint64_t word(const zeroproof_call* call, const char* name) {
  const zeroproof_setting* setting = zeroproof_find_setting(call, name);
  return setting == nullptr ? 0 : setting->value.word;
}

/// A setting in fp64; 0 if the call has none of that name.
inline double configured(const zeroproof_call* call, const char* name) {
  const zeroproof_setting* setting = zeroproof_find_setting(call, name);
  return setting == nullptr ? 0 : setting->value.real;
}

/// For zeroproof_get_plugin(): the rows of a table, under the name of the kind.
template <std::size_t n>
const zeroproof_plugin* library(const zeroproof_operation (&table)[n]) {
  static const zeroproof_plugin description = {
      ZEROPROOF_PLUGIN_ABI, sizeof(zeroproof_plugin), kind(), table, n, nullptr};
  return &description;
}

}  // namespace kernels
