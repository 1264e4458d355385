#pragma once
// Inputs of one call of an operation, and the values to compare its results with.

#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "verification/bench/research/errors/bounded.hpp"

namespace zeroproof::errors {

/// The smallest distance of a result of an operation from its bound.
struct Figure {
  std::int64_t judged = 0;
  double worst = 0;  ///< error / bound, the largest; NaN if one was

  void add(const Figure& other);
  void look(const Bounded& bound, float computed) { add({1, bound.ratio(computed)}); }
};

/// By the name of the result, the main one first.
using Figures = std::vector<std::pair<std::string, Figure>>;

/// One call. All of its draws depend on its number only.
class Batch {
 public:
  explicit Batch(std::uint64_t number) : random_(number) {}

  /// Numbers of both signs with any significand, magnitudes from 2^low to 2^high.
  std::vector<float> numbers(std::int64_t count, int low = -6, int high = 2);
  /// The same, all above 0.
  std::vector<float> positive(std::int64_t count, int low = -6, int high = 2);
  std::uint64_t word() { return random_(); }

  Figure& of(const char* result);
  const Figures& figures() const { return figures_; }

  const Exec exec;

 private:
  std::mt19937_64 random_;  // the same everywhere, by the standard
  Figures figures_;
};

/// An operation with its repeatedly used call.
struct Measured {
  const char* name;
  std::int64_t elements;  ///< of the main result, or of the terms of a sum, in one call
  std::function<void(Batch&)> call;
};

std::vector<Measured> measured_activations();
std::vector<Measured> measured_rows();
std::vector<Measured> measured_losses();
std::vector<Measured> measured_weights();

}  // namespace zeroproof::errors
