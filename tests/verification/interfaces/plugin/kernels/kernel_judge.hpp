#pragma once
// Kernels of this folder in processes of their own, under the judge, and under what one writes instead of it.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "verification/ops/op_case.hpp"

namespace zeroproof::tests {

/// A library as one of its kinds.
std::shared_ptr<const verification::OpCandidate> kernel(std::string_view library, std::string_view kind);

/// Everything the report says of a failure, in one line.
std::string told(const verification::Result& result);

/// A comparison of one call by |got - want| <= atol + rtol |want|.
struct Closeness {
  bool allclose =
      false;  ///< rtol 1e-5, atol 1e-8 for every type: defaults of torch.allclose and numpy.allclose
  bool assert_close =
      false;  ///< defaults of torch.testing.assert_close: 1.3e-6 and 1e-5 in fp32, by type otherwise
};

/// One shape of 1024 elements, one set of settings, numbers of a normal distribution: what a test of a kernel usually
/// is.
Closeness closeness(const verification::Op& op, const verification::OpCandidate& candidate);

}  // namespace zeroproof::tests
