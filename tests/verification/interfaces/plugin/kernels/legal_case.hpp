#pragma once
// Random legal calls: settings over the ranges of R5, sizes, numbers.

#include <cstdint>
#include <random>
#include <string>

#include "verification/ops/op_case.hpp"
#include "verification/ops/operations/update_settings.hpp"

namespace zeroproof::tests {

/// Draws of a random case.
class LegalDraw {
 public:
  explicit LegalDraw(std::uint64_t seed) : random_(seed) {}

  /// An operation with drawn settings instead of its own, and sizes up to a drawn one.
  verification::Op operation(const std::string& name);
  /// One of the fills of the operation.
  verification::Fill fill(const verification::Op& op);
  std::uint64_t word() { return random_(); }

 private:
  double uniform(double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random_);
  }
  double power_of_ten(double low, double high);
  bool heads() { return random_() % 2 == 0; }
  verification::UpdateSettings settings(UpdateRule rule);

  std::mt19937_64 random_;
};

}  // namespace zeroproof::tests
