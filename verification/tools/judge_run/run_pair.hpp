#pragma once
// The same step of two recordings of one training.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "verification/compare/bounds/element_bound.hpp"
#include "verification/compare/bounds/model.hpp"
#include "verification/tools/judge_run/recording.hpp"

namespace zeroproof::verification {

/// Side 0 is the recording that is judged (A), side 1 the one it is compared with (B).
inline constexpr std::array<const char*, 2> side_names = {"A", "B"};

class RunPair {
 public:
  /// Keeps references. Errors (ErrorCode::io): no parameter in common; another shape, rule or choice of elements.
  RunPair(const RunStep& a, const RunStep& b);

  const RunStep& side(std::size_t s) const { return *sides_[s]; }
  std::int64_t number() const { return sides_[0]->number(); }
  /// A parameter of both sides, by its index on each of them.
  using Common = std::array<std::size_t, 2>;
  const std::vector<Common>& common() const { return common_; }
  const RunParameter& parameter(const Common& p) const { return sides_[0]->parameter(p[0]); }
  /// Parameters of one side only: without a gradient on the other side.
  struct Lone {
    std::size_t side = 0, index = 0;
  };
  const std::vector<Lone>& lone() const { return lone_; }

 private:
  std::array<const RunStep*, 2> sides_;
  std::vector<Common> common_;
  std::vector<Lone> lone_;
};

/// Distance of the deviations of both values from their exact values, in units of the sum of both bounds; infinite for
/// a NaN. Values outside the conditions of a bound are held to the classes of their own bound; nothing where these state
/// nothing.
std::optional<double> pair_ratio(const std::array<double, 2>& values,
                                 const std::array<ElementBound, 2>& bounds);

}  // namespace zeroproof::verification
