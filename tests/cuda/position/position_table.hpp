#pragma once
// A host implementation as a row of a table: its buffers and its call. position_operations.hpp and
// position_updates.hpp have the rows.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::tests {

struct Buffer {
  DType dtype;
  bool is_input;
  bool is_output;
};
inline constexpr Buffer in{DType::fp32, true, false};
inline constexpr Buffer out{DType::fp32, false, true};
inline constexpr Buffer in_out{DType::fp32, true, true};
constexpr Buffer in_of(DType dtype) { return {dtype, true, false}; }
constexpr Buffer out_of(DType dtype) { return {dtype, false, true}; }

/// The operands of one call.
struct Call {
  const Exec& exec;
  const std::vector<TensorView>& views;
  std::uint64_t first;  ///< index of element 0 in the operation's data; draws use it

  std::int64_t numel() const { return views.front().numel; }
  template <class T = float>
  Span<T> view(std::size_t buffer) const {
    return {static_cast<T*>(views[buffer].data), static_cast<std::size_t>(views[buffer].numel)};
  }
};

using Numbers = std::vector<std::uint64_t>;

struct PositionOperation {
  std::string name;
  bool elementwise;  ///< element i of the outputs depends on element i of the inputs alone
  std::vector<Buffer> buffers;
  /// The return value of the call besides the buffers: found_inf, limbs.
  std::function<Numbers(const Call&)> run;
};

/// An element-wise operation that returns nothing.
template <class Run>
PositionOperation elementwise(std::string name, std::vector<Buffer> buffers, Run run) {
  return {std::move(name), true, std::move(buffers), [run](const Call& c) {
            run(c);
            return Numbers{};
          }};
}

/// A sum over one buffer.
template <class Run>
PositionOperation sum(std::string name, Run run) {
  return {std::move(name), false, {in}, run};
}

inline Numbers numbers_of(const NormLimbs& raw) {
  NormLimbs limbs = raw;
  cuda::host::grad_norm_normalise(limbs);
  Numbers numbers(limbs.limbs.begin(), limbs.limbs.end());
  numbers.push_back(limbs.nan_count);
  numbers.push_back(limbs.inf_count);
  return numbers;
}

}  // namespace zeroproof::tests
