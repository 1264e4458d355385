#pragma once
// What one phase of two recordings found, as a result of the common report.

#include <functional>

#include "verification/cases/result.hpp"
#include "verification/tools/judge_run/run_pair.hpp"

namespace zeroproof::verification {

/// The phases of two recordings, in the order of a step.
enum class PairPhase : std::uint8_t {
  settings,
  state,
  backward,
  reduce,
  overflow,
  norm,
  clip,
  update,
  cast
};
inline constexpr int num_pair_phases = 9;
std::string_view name(PairPhase phase);

/// A tensor of both sides.
struct PairTensor {
  RunPair::Common parameter;
  std::string buffer;
  std::array<std::vector<double>, 2> values;  ///< of the elements of leaf
  std::array<std::vector<std::size_t>, 2> owners;
  std::array<DType, 2> dtypes = {DType::fp32, DType::fp32};
  std::string what = "differs between A and B";
  std::string cause = "";  ///< of a difference, if it is known
};

class PairFindings {
 public:
  PairFindings(const RunPair& pair, PairPhase phase) : pair_(&pair), phase_(phase) {}

  /// Compares the elements. ratio_of: the error in units of the bound where the bits differ; nothing if there is none.
  void add(const PairTensor& tensor,
           const std::function<std::optional<double>(std::size_t i)>& ratio_of);
  /// A property that is no tensor: "lr", of a parameter or of a rank.
  void add_scalar(std::size_t rank, const std::string& buffer, const std::string& parameter,
                  double ratio, const std::string& of_a, const std::string& of_b, bool same_bits,
                  const std::string& what = "differs between A and B");
  bool has_first() const { return first_.has_value(); }
  /// Likely cause of the first difference; an earlier one stays.
  void hint(const std::string& text);
  void note(const std::string& text);
  void missing(const std::string& text);
  /// Elements that differ and have no bound.
  void unjudged(std::int64_t count) { unjudged_ += count; }

  std::int64_t compared() const { return compared_; }
  std::int64_t differing() const { return differing_; }
  std::int64_t unjudged() const { return unjudged_; }

  /// Skipped if nothing was compared, or not every difference has a bound. exactness: bitwise if all bits are equal.
  Result result(const std::string& programs, const std::string& replay) const;

 private:
  const RunPair* pair_;
  PairPhase phase_;
  std::int64_t compared_ = 0, other_bits_ = 0, differing_ = 0, unjudged_ = 0;
  double worst_ = 0, first_ratio_ = 0, first_worst_ = 0;
  std::optional<Divergence> first_;
  std::string note_, missing_;

  void explain(const PairTensor& tensor, const std::vector<std::size_t>& wrong);
};

}  // namespace zeroproof::verification
