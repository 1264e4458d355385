#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "verification/compare/bounds/element_bound.hpp"

namespace zeroproof::verification {

/// Bounds on the results of one call over all legal orders of operations.
class CallBounds {
 public:
  virtual ~CallBounds() = default;

  /// The bound of one value of an output. Calling it element by element is cheapest: shared terms
  /// of the operands of an element are computed once.
  virtual ElementBound of(std::size_t operand, std::int64_t index) = 0;

  /// For every pair of powers of the betas in fp32 the bounds with them ([Bound:powers]), the likeliest
  /// pairs first; none for a call without bias correction.
  virtual std::vector<std::unique_ptr<CallBounds>> with_powers() const { return {}; }

  /// Bounds from a function of operand and index.
  static std::unique_ptr<CallBounds> by(
      std::function<ElementBound(std::size_t, std::int64_t)> function);
};

inline std::unique_ptr<CallBounds> CallBounds::by(
    std::function<ElementBound(std::size_t, std::int64_t)> function) {
  class Function final : public CallBounds {
   public:
    explicit Function(std::function<ElementBound(std::size_t, std::int64_t)> function)
        : function_(std::move(function)) {}
    ElementBound of(std::size_t operand, std::int64_t index) override {
      return function_(operand, index);
    }

   private:
    std::function<ElementBound(std::size_t, std::int64_t)> function_;
  };
  return std::make_unique<Function>(std::move(function));
}

}  // namespace zeroproof::verification
