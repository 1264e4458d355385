#pragma once
// What one phase of one step found, as a result of the common report.

#include <string>

#include "verification/cases/result.hpp"
#include "verification/tools/judge_run/recording.hpp"

namespace zeroproof::verification {

/// The phases that are judged, in the order of a step.
enum class RunPhase : std::uint8_t { reduce, overflow, norm, clip, update, cast, state, rate };
/// Those of every recording; rate is judged with a schedule.
inline constexpr int num_run_phases = 7;
std::string_view name(RunPhase phase);

/// "[3, 4]": the place of an element in a parameter.
std::string coordinates_of(const RunParameter& parameter, std::int64_t element);

/// A tensor of one rank.
struct RunPlace {
  std::size_t rank = 0;
  std::size_t parameter = 0;
  std::string buffer;         ///< "reduced"
  std::string what;           ///< "is not the mean of the gradients"
  bool all_elements = false;  ///< it has the elements of leaf, otherwise those of owned
  DType dtype = DType::fp32;  ///< to show values
};

class RunFindings {
 public:
  RunFindings(const RunStep& step, RunPhase phase) : step_(&step), phase_(phase) {}

  /// An element and its error in units of its bound; infinite where no error is allowed. Elements of
  /// one place come together. Returns true if it is wrong.
  bool add(const RunPlace& place, std::int64_t i, double ratio, float got, long double want);
  /// Results that are right, with the largest error of one in units of its bound.
  void add_right(std::int64_t count, double worst);
  /// A property of a rank that is no tensor: "norm", with its values as text.
  void add_scalar(std::size_t rank, const std::string& buffer, const std::string& what,
                  double ratio, const std::string& got, const std::string& want);
  /// True if the first difference is in this tensor.
  bool first_in(const RunPlace& place) const;
  bool has_first() const { return first_.has_value(); }
  /// Likely cause of the first difference; an earlier one stays.
  void hint(const std::string& text);
  /// Said of a phase that is right, or why it could not be judged.
  void note(const std::string& text);
  void missing(const std::string& text);

  /// Some results are right by the choices that they show, for which there are neither bits nor a bound.
  void named() { named_ = true; }
  /// Some results were recorded and could not be judged.
  void partial() { partial_ = true; }

  std::int64_t compared() const { return compared_; }
  std::int64_t differing() const { return differing_; }
  double worst() const { return worst_; }

  /// Skipped if nothing was compared.
  Result result(const std::string& program, const std::string& replay) const;

 private:
  const RunStep* step_;
  RunPhase phase_;
  std::int64_t compared_ = 0, differing_ = 0;
  double worst_ = 0;
  bool named_ = false, partial_ = false;
  std::optional<Divergence> first_;
  double first_ratio_ = 0, first_worst_ = 0;
  std::optional<RunPlace> now_;
  std::int64_t now_compared_ = 0;
  std::string note_, missing_;
};

/// The phases of one step. `before`: the step before, or null if it is not recorded.
struct RunJudgeSettings {
  bool only_fp32 = false;  ///< sums in another precision are wrong
};
RunFindings judge_reduce(const RunStep& step, const RunJudgeSettings& settings);
RunFindings judge_overflow(const RunStep& step);
RunFindings judge_norm(const RunStep& step, const RunJudgeSettings& settings);
RunFindings judge_clip(const RunStep& step, const RunJudgeSettings& settings);
RunFindings judge_update(const RunStep& step, const RunStep* before);
/// Adds the matrices of groups of muon, each put together from the ranks.
void judge_muon(const RunStep& step, RunFindings& found);
RunFindings judge_cast(const RunStep& step);
RunFindings judge_state(const RunStep& step, const RunStep* before);

}  // namespace zeroproof::verification
