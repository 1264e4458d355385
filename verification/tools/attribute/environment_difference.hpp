#pragma once
// Libraries, machines and settings that differ between two recordings.

#include <string>
#include <vector>

#include "verification/tools/attribute/operations_file.hpp"

namespace zeroproof::verification {

/// Effect that a difference can have on bits.
enum class EffectOfDifference : std::uint8_t {
  kernels,     ///< the same operation may compute other bits
  operations,  ///< and the library may dispatch other operations
  possible,    ///< not known to change bits; a cause where nothing else differs
  none         ///< follows from another difference, or changes no bits
};

struct EnvironmentDifference {
  std::string group;                ///< library, machine, setting or environment
  std::string name, before, after;  ///< values; "" where one side has none
  EffectOfDifference effect = EffectOfDifference::none;

  /// "threads 2 -> 1".
  std::string text() const;
};

/// Differences that hold at a pair of operations. `on_gpu`: whether the operation runs there, where settings of CUDA
/// have effects. Sorted by effect, and as causes by how much they change.
std::vector<EnvironmentDifference> environment_differences(const OperationsFile& before,
                                                           const OperationsFile& after,
                                                           std::size_t old_operation,
                                                           std::size_t new_operation, bool on_gpu);

}  // namespace zeroproof::verification
