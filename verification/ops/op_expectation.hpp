#pragma once
// Required results other than the contract's.

#include <string>

#include "verification/ops/op.hpp"

namespace zeroproof::verification {

class OpExpectation {
 public:
  virtual ~OpExpectation() = default;

  /// Name in reports: "torch-cpu-fused".
  virtual std::string name() const = 0;
  /// Result::held_to of bitwise operations.
  virtual std::string held_to() const { return "dialect:" + name(); }
  /// False if it does not define an operation.
  virtual bool covers(const Op& op) const = 0;
  /// False if it does not define this call of a covered operation.
  virtual bool takes(const Op& op, const OpCall& call) const = 0;
  /// Writes the required results, as Op::reference does. Only for calls with takes().
  virtual void compute(const Op& op, OpCall& call) const = 0;
};

}  // namespace zeroproof::verification
