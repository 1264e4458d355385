#pragma once
// Results of cases that are not steps of phases: one operation, a run of L-BFGS, or a control of the harness itself.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/span.hpp"
#include "verification/case.hpp"

namespace zeroproof::verification {

/// How far differing values are apart, in units in the last place of their format. For people who look for the cause:
/// no verdict reads it.
struct UlpHistogram {
  std::array<std::int64_t, 5> counts{};  ///< 0, 1, 2, 3 to 15, 16 and more
  std::int64_t sign_or_nan = 0;          ///< signs differ, or one of the two is NaN
  std::uint64_t largest = 0;

  /// Elements of two views of one float format; integers add nothing.
  void add(const TensorView& reference, const TensorView& candidate);
};

/// "0: 12  1: 3  2: 0  3-15: 0  16+: 1  sign or NaN: 0  largest 52429".
std::string to_string(const UlpHistogram& histogram);

/// The first element that is not as it should be.
struct CheckDifference {
  std::string output;  ///< "target[1024]"
  std::string shape;   ///< "numel 1025, offset 1, variant in place, threads 1"
  std::string expected, got;
  std::vector<std::pair<std::string, std::string>> inputs;  ///< of that element: name, bits and value
};

/// A buffer as it was: "input.grad", "reference.master", "candidate.master".
struct SavedTensor {
  std::string name;
  DType dtype = DType::fp32;
  std::vector<std::byte> bytes;
};

struct CheckResult {
  std::string id;
  std::string suite;      ///< operation, "lbfgs/byte_gpt_tiny/armijo", or "controls"
  std::string side;       ///< "host x86-64-v3", "device"
  std::string exactness;  ///< class of the operation
  Status status = Status::skipped;
  std::string reason;
  std::string replay;
  std::int64_t compared = 0;
  std::int64_t differing = 0;
  std::int64_t legal_differences = 0;  ///< controls: elements that differ although the contract allows it
  double worst_ratio = 0;              ///< class bounded: largest error / allowed error
  UlpHistogram ulps;
  std::optional<CheckDifference> first;
  std::optional<Divergence> divergence;  ///< L-BFGS: the first place, instead of `first`
  std::vector<SavedTensor> tensors;      ///< of the call in which the first difference was found
  double seconds = 0;
};

}  // namespace zeroproof::verification
