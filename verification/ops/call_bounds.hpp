#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "verification/compare/bounds/element_bound.hpp"

namespace zeroproof::verification {

/// What any legal order of operations may leave in the results of one call.
class CallBounds {
 public:
  virtual ~CallBounds() = default;

  /// Of one value of an operand that is written. Asking element by element is cheapest: what the operands of one
  /// element share is computed once.
  virtual ElementBound of(std::size_t operand, std::int64_t index) = 0;

  /// Those of a function of operand and index.
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
