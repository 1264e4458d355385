#pragma once
// Calls of a sweep that a candidate computed, and those that it declined.

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "verification/ops/op.hpp"

namespace zeroproof::verification {

class DeclinedCalls {
 public:
  explicit DeclinedCalls(const Op& op) : op_(op) {}

  void add(const CallShape& shape, bool declined);
  bool any() const { return calls_.declined > 0; }
  bool all() const { return any() && calls_.computed == 0; }

  /// "1584 of 1728 calls were left out".
  std::string text() const;

  /// Why the computed calls do not represent the sweep: of a seed, which may be known by heart, no
  /// call with elements of a variant or a range of sizes, or fewer than half of the elements. "" if
  /// they do.
  std::string missing() const;

 private:
  struct Count {
    std::int64_t computed = 0, declined = 0;
  };

  struct Seed {
    Count elements;
    std::map<std::string, Count> groups;  ///< of calls with elements, by name
  };

  const Op& op_;
  Count calls_;
  std::map<std::uint64_t, Seed> seeds_;
};

}  // namespace zeroproof::verification
