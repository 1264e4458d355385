#pragma once
// Reference and candidate of one rank, run side by side and compared after every phase.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "reference/dense_optimizer.hpp"
#include "verification/case.hpp"
#include "verification/case_layout.hpp"
#include "verification/compare.hpp"
#include "verification/rank_groups.hpp"
#include "verification/step_leaves.hpp"

namespace zeroproof::verification {

/// The trajectory hash of CONTRACT.md.
class TrajectoryHash {
 public:
  explicit TrajectoryHash(GradSum grad_sum = GradSum::tree);

  struct Scalars {
    std::int64_t step = 0;
    TensorView step_scalars;  ///< 15 words, or 15 for every tensor
    int log2_loss_scale = 0;
    bool found_inf = false;
    bool skipped = false;
    double grad_norm = 0;
    float clip_coef = 0;
    TensorView tensor_steps;  ///< under missing_grad = skip, else empty
  };

  /// buffers: G, master, the rule's state in the order of R6, param; each [padded_numel].
  void add_step(const Scalars& scalars, const FlatLayout& layout, const std::vector<TensorView>& buffers);

  Digest digest() const { return hasher_.digest(); }

 private:
  Hasher hasher_;
};

class RankPair {
 public:
  struct Communicators {
    Communicator* reference;
    Communicator* candidate;
    Communicator* harness;
  };
  using MakeOptimizer = std::function<std::unique_ptr<DistributedOptimizer>(const OptimizerSetup&)>;

  /// `make_candidate` builds the candidate; `fault` is handed to it (empty for none).
  RankPair(const Experiment& experiment, const CaseSpec& spec, const CaseLayout& layout,
           const Communicators& comms, int omp_threads, const std::string& fault,
           const MakeOptimizer& make_candidate);

  /// Runs one step of both sides. `truth` is the undistributed optimizer after the same step, or nullptr.
  /// Collective over the ranks of the case.
  void run_step(std::int64_t step, LeafCache& leaves, const reference::DenseOptimizer* truth);

  /// True when a free run cannot go on: the two sides disagree about skipping.
  bool stopped() const { return stopped_; }

  const std::vector<PhaseTally>& tallies() const { return tallies_; }
  const std::optional<Divergence>& divergence() const { return divergence_; }
  const StepTiming& timing() const { return timing_; }
  Digest reference_hash() const { return reference_hash_.digest(); }
  Digest candidate_hash() const { return candidate_hash_.digest(); }
  std::int64_t skipped_steps() const { return skipped_steps_; }
  std::int64_t clipped_steps() const { return clipped_steps_; }
  std::int64_t growths() const { return growths_; }
  std::int64_t moved_elements() const { return moved_elements_; }

 private:
  using Buffers = std::map<BufferId, ExposedBuffer>;

  void run_phase(std::int64_t step, Phase phase, LeafSource& for_reference, LeafSource& for_candidate,
                 const reference::DenseOptimizer* truth);
  void compare_loaded_state();
  Comparison compare_buffers(const ExposedBuffer& reference, const ExposedBuffer& candidate) const;
  void compare_phase(std::int64_t step, Phase phase, const Buffers& reference, const Buffers& candidate);
  void compare_with_truth(std::int64_t step, Phase phase, const Buffers& reference,
                          const reference::DenseOptimizer& truth);
  void check_write_set(std::int64_t step, Phase phase);
  void check_padding(std::int64_t step, Phase phase, const Buffers& candidate);
  void overwrite(const Buffers& reference, const Buffers& candidate);
  void remember_storage();
  void count(const Buffers& reference, Phase phase);
  void note(Divergence divergence);
  /// Notes something that is wrong although no element is; nothing if `what` is empty.
  void note_problem(std::int64_t step, Phase phase, const char* buffer, const std::string& what);
  void check_skipped_scalars(std::int64_t step);
  void load_first_state();
  GuardedBuffer collect_params(DistributedOptimizer& side);
  const CaseLayout::Local& local() const { return layout_.local(place_.tp_rank); }
  void note_difference(std::int64_t step, Phase phase, const ExposedBuffer& buffer, const std::string& what,
                       const Comparison& comparison, const TensorView& reference,
                       const TensorView& candidate);
  std::vector<Piece> pieces_of(const ExposedBuffer& buffer) const;
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
  const RankPlace place_;
  RankGroups reference_groups_, candidate_groups_, harness_groups_;
  LeafMaker leaf_maker_;
  LeafProvider* leaves_of_step_ = nullptr;  // of the reference, during run_step
  std::unique_ptr<DistributedOptimizer> reference_;
  std::unique_ptr<DistributedOptimizer> candidate_;
  std::vector<ExposedBuffer> storage_;
  std::vector<Digest> storage_digests_;
  std::vector<float> master_before_;
  std::vector<PhaseTally> tallies_;
  std::optional<Divergence> divergence_;
  TrajectoryHash reference_hash_{spec_.place.grad_sum}, candidate_hash_{spec_.place.grad_sum};
  StepTiming timing_;
  bool stopped_ = false;
  std::int64_t skipped_steps_ = 0, clipped_steps_ = 0, growths_ = 0, moved_elements_ = 0;
};

}  // namespace zeroproof::verification
