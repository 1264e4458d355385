#pragma once
// One rank of an L-BFGS run, compared with the true trajectory at every evaluation and after every step.

#include <optional>
#include <string>

#include "verification/compare/hint.hpp"
#include "verification/compare/judge.hpp"
#include "verification/training/lbfgs/trajectory.hpp"

namespace zeroproof::verification {

/// Buffers of a step in the order in which they are compared: point[e], loss[e], grad[e] of evaluation e = 0, 1, ...;
/// the fields of the report; the state: master, scalars, rho[i], steps[i], grad_changes[i], then grad_before and move
/// if they are pending. Bits, under the NaN rule of R9.
class LbfgsJudge {
 public:
  LbfgsJudge(const LbfgsSetup& place, std::string what);

  void begin_step(std::int64_t step, const SavedStep& truth);
  void evaluation(Span<const float> point, double loss, Span<const float> grad);
  void report(const LbfgsReport& got);
  void state(std::int64_t step, const LbfgsState& want, const LbfgsState& got,
             const std::string& when);

  const std::optional<Divergence>& divergence() const { return judge_.first(); }
  std::int64_t order() const {
    return order_;
  }  ///< index of the divergence among the comparisons of its step
  std::int64_t compared() const { return judge_.compared(); }
  std::int64_t differing() const { return judge_.differing(); }
  RankResults results() const { return judge_.results(rank_); }

 private:
  void vector(const std::string& buffer, Span<const float> want, Span<const float> got);
  void number(const std::string& buffer, double want, double got);
  void count(const std::string& buffer, std::int64_t want, std::int64_t got);
  void scalar(const std::string& buffer, DType dtype, std::uint64_t want, std::uint64_t got,
              Meaning meaning = Meaning::bits);
  void refuse(const std::string& buffer, const std::string& what);
  void begin_comparison();
  Divergence place(const std::string& buffer) const;
  std::string hint_of(Span<const float> want, Span<const float> got) const;

  const FlatLayout& layout_;
  const std::vector<Piece> pieces_;
  std::vector<ElementRun> runs_;  // of the pieces
  const std::int64_t shard_numel_;
  const int rank_, num_ranks_;
  const std::string what_;  // description of a difference
  std::string when_;
  std::int64_t step_ = 0;
  const SavedStep* truth_ = nullptr;
  std::size_t evaluations_ = 0;
  std::int64_t order_ = 0;
  Judge judge_;
};

/// Passes the points and results of a closure to a judge.
class JudgedClosure final : public Closure {
 public:
  JudgedClosure(Closure& inner, LbfgsJudge& judge) : inner_(inner), judge_(judge) {}

 private:
  double compute(Span<const float> master_shard, Span<float> grad_shard) override {
    const double loss = inner_.evaluate(master_shard, grad_shard);
    judge_.evaluation(master_shard, loss, grad_shard);
    return loss;
  }

  Closure& inner_;
  LbfgsJudge& judge_;
};

}  // namespace zeroproof::verification
