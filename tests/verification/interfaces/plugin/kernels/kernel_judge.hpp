#pragma once
// Kernels of this folder in separate processes, and the list of the correct ones.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "verification/ops/op_case.hpp"

namespace zeroproof::tests {

struct RightKernel {
  std::string_view library, kind;
  bool has_bits;  ///< those of the contract; else those of another legal order
  std::vector<std::string_view> operations;
};

const std::vector<RightKernel>& right_kernels();

/// A library as one of its kinds.
std::shared_ptr<const verification::OpCandidate> kernel(std::string_view library,
                                                        std::string_view kind);

/// The report of a failure, in one line.
std::string described(const verification::Result& result);

}  // namespace zeroproof::tests
