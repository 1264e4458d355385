#pragma once
// Which kernels of this folder are wrong, and where that has to be seen; and which are right.

#include <string_view>
#include <vector>

#include "common/base/span.hpp"
#include "verification/ops/op_call.hpp"

namespace zeroproof::tests {

struct WrongKernel {
  std::string_view library, kind;
  std::string_view error;      ///< the kind of transcription error
  std::string_view operation;  ///< as which it is judged
  verification::Fill fill;     ///< on which numbers
  std::string_view operand;    ///< that has to be named; "": none, memory of nobody is written
  /// What the report has to say of the place, each of them: derived from what the kernel does.
  std::vector<std::string_view> place = {};
};

struct RightKernel {
  std::string_view library, kind;
  bool has_bits;  ///< those of the contract; else those of another legal order
  std::vector<std::string_view> operations;
};

const std::vector<WrongKernel>& wrong_kernels();
const std::vector<RightKernel>& right_kernels();

}  // namespace zeroproof::tests
