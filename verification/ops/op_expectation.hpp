#pragma once
// What results are held to, where that is not the contract.

#include <string>

#include "verification/ops/op.hpp"

namespace zeroproof::verification {

class OpExpectation {
 public:
  virtual ~OpExpectation() = default;

  /// "torch-cpu-fused": what reports say of it.
  virtual std::string name() const = 0;
  /// Result::held_to of bitwise operations.
  virtual std::string held_to() const { return "dialect:" + name(); }
  /// False if it says nothing of an operation.
  virtual bool covers(const Op& op) const = 0;
  /// False if it says nothing of this call of an operation that it covers.
  virtual bool takes(const Op& op, const OpCall& call) const = 0;
  /// Writes the results that are wanted, as Op::reference does. Only of calls that it takes.
  virtual void compute(const Op& op, OpCall& call) const = 0;
};

}  // namespace zeroproof::verification
