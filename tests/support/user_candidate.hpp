#pragma once
// A user's implementation of one operation, for tests.

#include <string>
#include <utility>

#include "verification/ops/op_candidate.hpp"

namespace zeroproof::tests {

/// Computes the operation `op` by `run`, as a plug-in would, and no other operation.
class UserCandidate final : public verification::OpCandidate {
 public:
  UserCandidate(std::string op, verification::OpFunction run)
      : op_(std::move(op)), run_(std::move(run)) {}
  std::string id() const override { return "user/one"; }
  std::string side() const override { return "user one"; }
  verification::Implementation kind() const override {
    return verification::Implementation::plugin;
  }
  bool has(const verification::Op& op) const override { return op.name == op_; }
  std::string obstacle(const verification::Op&) const override { return ""; }
  verification::OpFunction function(const verification::Op&, const std::string&) const override {
    return run_;
  }

 private:
  std::string op_;
  verification::OpFunction run_;
};

}  // namespace zeroproof::tests
