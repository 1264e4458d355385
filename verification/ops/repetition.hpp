#pragma once
// Detects results that were not computed but repeated from another call.

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/digest.hpp"
#include "verification/ops/op.hpp"

namespace zeroproof::verification {

/// Checks all calls of a case, in order. Even a wrong formula depends on its inputs; repeated
/// results do not: results of the first seed repeated for the same call of the second one, where
/// all inputs differ, and results of an earlier call. A result counts if it is neither zero nor
/// infinite nor NaN, which errors produce from many inputs, and a call if at least `enough` of its
/// results count. Shorter calls count together: if every result of every one is repeated and
/// counts.
class Repetition {
 public:
  static constexpr std::int64_t enough = 16;
  static constexpr std::int64_t enough_short_calls = 8;

  /// `op` must outlive this object.
  explicit Repetition(const Op& op) : op_(&op) {}

  /// Checks one completed call. Returns the repeated results and the earlier call, in one sentence;
  /// "" if none are repeated.
  std::string look(const OpCall& pristine, const OpCall& reference, const OpCall& candidate);

  /// At the end, the same of short calls.
  std::string of_single_results() const;

 private:
  using Bytes = std::vector<std::byte>;
  struct Kept {
    std::vector<Bytes> inputs, wanted, got;  // by operand; empty where it is none of these
  };
  struct Summary {
    std::vector<Digest> inputs;
    Digest wanted, got;
  };
  using Point = std::tuple<std::int64_t, int, int, int>;

  std::vector<std::size_t> written(const OpCall& pristine, const OpCall& candidate) const;
  Summary summary(const std::vector<std::size_t>& outputs, const OpCall& pristine,
                  const OpCall& reference, const OpCall& candidate) const;
  enum class SecondTime { tells_nothing, other, repeated };
  SecondTime against_first_seed(const Summary& now, const CallShape& shape);
  bool repeats(const Kept& before, const std::vector<std::size_t>& outputs, const OpCall& pristine,
               const OpCall& reference, const OpCall& candidate) const;
  void keep(const OpCall& pristine, const OpCall& reference, const OpCall& candidate);

  const Op* op_;
  std::map<Point, std::pair<std::uint64_t, Summary>>
      first_;  // by point of the sweep: its seed, and the digests
  std::vector<Kept> before_;
  std::int64_t short_calls_ = 0, short_repeated_ = 0;
};

}  // namespace zeroproof::verification
