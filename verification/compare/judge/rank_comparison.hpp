#pragma once
// Reference and candidate of one rank, run side by side and compared after every phase.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "reference/dense_optimizer.hpp"
#include "reference/distributed_optimizer.hpp"
#include "verification/cases/case_layout.hpp"
#include "verification/compare/judge.hpp"
#include "verification/compare/judge/any_order.hpp"
#include "verification/compare/judge/byte_account.hpp"
#include "verification/compare/judge/exact_sums.hpp"
#include "verification/compare/judge/message_log.hpp"
#include "verification/compare/judge/rank_buffers.hpp"
#include "verification/compare/judge/rank_groups.hpp"
#include "verification/compare/judge/skip_stats.hpp"
#include "verification/compare/judge/trajectory.hpp"
#include "verification/training/gradients/step_grads.hpp"

namespace zeroproof::verification {

class RankComparison {
 public:
  struct Communicators {
    Communicator* reference;
    Communicator* candidate;
    Communicator* harness;
    bool keep_messages = false;  ///< of the candidate, and compare them after every phase
  };
  using MakeOptimizer = std::function<std::unique_ptr<DistributedOptimizer>(const OptimizerSetup&)>;

  /// `make_candidate` builds the candidate. `make_reference` builds the other side; only tests of
  /// the judge replace it, and `candidate_stats`: by default the implementation that such a
  /// candidate calls (R14).
  RankComparison(const Experiment& experiment, const CaseSpec& spec, const CaseLayout& layout,
                 const Communicators& comms, int omp_threads, const MakeOptimizer& make_candidate,
                 const MakeOptimizer& make_reference = reference::make_distributed_optimizer,
                 GradStatsFn* candidate_stats = nullptr);

  /// From now on results of a foreign candidate in lock-step may be those of any legal order.
  void accept_any_order() { any_order_.emplace(reference_setup_); }

  /// Runs one step of both sides. `truth` is the undistributed optimizer after the same step, or nullptr.
  /// Collective over the ranks of the case.
  void run_step(std::int64_t step, GradCache& leaves, const reference::DenseOptimizer* truth);

  /// True when a run cannot go on: the two sides of a free run disagree about skipping, or the run
  /// has ended.
  bool stopped() const { return stopped_; }

  /// True if both sides ended the run with the error of on_nonfinite = error.
  bool ended() const { return ended_; }

  const std::vector<PhaseTally>& tallies() const { return tallies_; }
  const std::optional<Divergence>& divergence() const { return judge_.first(); }
  RankResults results() const { return judge_.results(comms_.harness->rank()); }
  const StepTiming& timing() const { return timing_; }
  Digest reference_hash() const { return reference_hash_.digest(); }
  Digest candidate_hash() const { return candidate_hash_.digest(); }
  std::int64_t skipped_steps() const { return skipped_steps_; }
  const std::vector<SkippedStep>& skips() const { return skips_; }
  std::int64_t clipped_steps() const { return clipped_steps_; }
  std::int64_t growths() const { return growths_; }
  std::int64_t updated_elements() const { return updated_elements_; }
  std::int64_t moved_elements() const { return moved_elements_; }
  std::int64_t nan_elements() const { return nan_elements_; }
  /// Losses of each step; empty in Mode::lockstep, where both sides have the same parameters.
  const std::vector<double>& reference_losses() const { return reference_losses_; }
  const std::vector<double>& candidate_losses() const { return candidate_losses_; }
  const DistributedOptimizer& candidate() const { return *candidate_; }
  std::vector<RankBytes> bytes() const { return account_.result(comms_.harness->rank()); }

 private:
  using Buffers = NamedBuffers;

  /// False if the run ends here.
  bool run_phase(std::int64_t step, Phase phase, GradSource& for_reference,
                 GradSource& for_candidate, const reference::DenseOptimizer* truth);
  /// Mode::whole: the candidate makes the step in one call after the reference; then the results of
  /// both are compared. Returns both sums of gradients.
  struct Sums {
    GuardedBuffer reference, candidate;
  };
  Sums run_whole(std::int64_t step, GradSource& for_reference, GradSource& for_candidate,
                 const reference::DenseOptimizer* truth);
  GuardedBuffer collected_sum(DistributedOptimizer& side) {
    return grad_maker_.collector().collect(sum_of(side).view);
  }
  static ExposedBuffer sum_of(DistributedOptimizer& side);
  /// Whether the sides agree about skipping; collective. Without agreement the run ends.
  bool agree_to_skip(std::int64_t step, Phase phase);
  /// Does the work of one side. True if it ends with the error of on_nonfinite = error, which only
  /// phase unscale may report; Mode::whole passes that phase for the candidate's whole step.
  bool stops_at_overflow(Phase phase, const std::function<void()>& work) const;
  /// Whether the sides agree about that end, after which no state may have changed; then the run
  /// is over. Collective.
  bool end_at_overflow(std::int64_t step, bool reference, bool candidate,
                       const reference::DenseOptimizer* truth);
  void compare_loaded_state();
  /// Compares the messages since the last call, if they are kept. Collective.
  void check_messages();
  Comparison compare_buffers(const ExposedBuffer& reference, const ExposedBuffer& candidate) const;
  /// Returns the buffers that have the same bits on both sides.
  std::set<BufferId> compare_phase(std::int64_t step, Phase phase, const Buffers& reference,
                                   const Buffers& candidate,
                                   const reference::DenseOptimizer* truth);
  void compare_with_truth(std::int64_t step, Phase phase, const Buffers& reference,
                          const reference::DenseOptimizer& truth);
  /// "clip group 0", or "clip group" and its name.
  std::string clip_group_name(std::int64_t group) const;
  /// ", in clip group embeddings" for a differing buffer with values of several clip groups.
  std::string groups_difference(const ExposedBuffer& ours, const ExposedBuffer& theirs) const;
  const std::string& tensor_name(std::int64_t tensor) const {
    return experiment_.layout().tensors()[tensor].name;
  }
  /// The pieces whose norm the candidate left out or counted twice; "" if no such piece explains
  /// the difference.
  std::string norm_difference(Phase phase, const Buffers& candidate,
                              const reference::DenseOptimizer* truth) const;
  void check_write_set(std::int64_t step, Phase phase);
  void check_red_zones(std::int64_t step, Phase phase);
  void check_padding(std::int64_t step, Phase phase, const Buffers& candidate);
  /// Copies the reference's values into all buffers of the candidate except those in `same`.
  void overwrite(Phase phase, const Buffers& reference, const Buffers& candidate,
                 const std::set<BufferId>& same);
  /// Copies the storage that may have changed since the last call: storage the phase may write,
  /// storage that changed without permission, and storage that lock-step overwrote (`overwritten`).
  /// The rest was compared and is unchanged.
  void remember_storage(Phase phase, const Buffers& overwritten);
  void store(std::size_t index);
  void remember_master();
  void look_at(std::int64_t step, Phase phase, const Buffers& reference,
               const reference::DenseOptimizer* truth);
  /// Counts the minimal bytes that a step reads and writes.
  void count_bytes();
  void count(const Buffers& reference, Phase phase);
  Divergence place(std::int64_t step, Phase phase, std::string_view buffer,
                   const std::string& what) const;
  /// Records an error that is not in an element; no effect if `what` is empty.
  void note_problem(std::int64_t step, Phase phase, std::string_view buffer,
                    const std::string& what);
  void check_skipped_scalars(std::int64_t step);
  /// Appends the loss at the parameters of these gradients. Collective.
  void note_losses(std::vector<double>& losses, const StepGrads& grads);
  /// Keeps the gradient sums of this step if it may be skipped.
  void keep_sums(const ExposedBuffer& reference);
  /// Collective.
  void compare_skip(std::int64_t step, const reference::DenseOptimizer* truth);
  void load_first_state();
  /// The undistributed buffer on rank 0: a view if it exists there, otherwise a copy in `memory`.
  /// Collective.
  TensorView collected(const TensorView& mine, std::vector<GuardedBuffer>& memory);
  TensorView collected_params(DistributedOptimizer& side, std::vector<GuardedBuffer>& memory);
  const CaseLayout::Local& local() const { return layout_.local(place_.tp_rank); }
  /// Counts a comparison of elements of a buffer; the first that differs is named by parameter and global index.
  void count_comparison(const Comparison& comparison, const ExposedBuffer& buffer, Divergence at);
  /// A likely cause of the first difference; "" if none is found.
  std::string hint_of(Phase phase, const ExposedBuffer& ours, const ExposedBuffer& theirs) const;
  std::vector<Piece> pieces_of(const ExposedBuffer& buffer) const;
  /// Elements this rank updates, in a buffer of the whole model.
  std::vector<Piece> owned_pieces() const;
  PhaseTally& tally(Phase phase, BufferId buffer, const char* against);
  /// Exponents of the loss scales the leaves of this step were made with.
  struct Scales {
    int reference;
    int candidate;
  };
  void hash_step(std::int64_t step, const Scales& scales, const GuardedBuffer& reference_grad,
                 const GuardedBuffer& candidate_grad);

  const Experiment& experiment_;
  CaseSpec spec_;
  const CaseLayout& layout_;
  Communicators comms_;
  const RankCoords place_;
  RankGroups reference_groups_, candidate_groups_, harness_groups_;
  std::optional<MessageLog> messages_;
  std::optional<BrokenMessage> broken_message_;  // the first one that this rank received
  ByteAccount account_;  // outlives the candidate, whose communicators it wraps
  GradMaker grad_maker_;
  OptimizerSetup reference_setup_;
  OptimizerSetup harness_setup_;  // coordinates of this rank, with the harness's groups
  ExactSums exact_sums_;          // of the step's leaves, with native sums
  std::unique_ptr<DistributedOptimizer> reference_;
  std::unique_ptr<DistributedOptimizer> candidate_;
  std::vector<ExposedBuffer> storage_;
  std::vector<std::vector<std::byte>> stored_;  // [storage_], content after the last phase
  std::vector<bool> changed_;  // [storage_], true if check_write_set() found an illegal write
  std::vector<float> master_before_;
  bool grad_reaches_update_ = true;  // false in a step whose infinite norm is propagated
  std::optional<AnyOrder> any_order_;
  std::vector<PhaseTally> tallies_;
  Judge judge_;
  TrajectoryHash reference_hash_{spec_.place.grad_sum}, candidate_hash_{spec_.place.grad_sum};
  StepTiming timing_;
  bool stopped_ = false, ended_ = false;
  SkipStats skip_stats_;
  std::vector<SkippedStep> skips_;
  std::vector<double> reference_losses_, candidate_losses_;
  std::int64_t skipped_steps_ = 0, clipped_steps_ = 0, growths_ = 0;
  std::int64_t updated_elements_ = 0, moved_elements_ = 0, nan_elements_ = 0;
};

}  // namespace zeroproof::verification
