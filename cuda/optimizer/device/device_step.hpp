#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/comm/exchange/comm_groups.hpp"
#include "cuda/comm/memory/memory_space.hpp"
#include "cuda/comm/memory/space_array.hpp"
#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/device/step/step_passes.hpp"
#include "cuda/enqueued_optimizer.hpp"
#include "cuda/optimizer/device/device_matrices.hpp"
#include "cuda/optimizer/device/device_scales.hpp"
#include "cuda/optimizer/device/device_state.hpp"
#include "cuda/optimizer/state/local_step.hpp"

namespace zeroproof::cuda {

/// The step over device memory: kernels over one table of pieces, with every scalar of the step in
/// device memory and those of other ranks through the comm_groups. In separate phases the host
/// reads the scalars after prepare, for the comparison between ranks, and the results after
/// unscale; in an enqueued step it reads nothing. Subclasses may override single ranges of the
/// step.
class DeviceStep : public LocalStep {
 public:
  /// fused: two passes over the gradient instead of one per phase. Objects referenced by the shard
  /// and the comm_groups must outlive this.
  DeviceStep(RankShard& shard, const CommGroups& comm_groups, bool fused);

  DeviceStep(const DeviceStep&) = delete;
  DeviceStep& operator=(const DeviceStep&) = delete;

  void load(const FullState& state) override;
  void load_stored(const FullState& state, const StateBlocks::Chosen& of_codes,
                   const StateBlocks::Change& read) override;
  void prepare(GradSource& leaves) override;
  void begin_sum() override { discard_measurement(); }
  /// The gradient buffer. In the fused form, the results of finite_norm are computed while G is
  /// written, if a fold of this rank writes it and there is one clip group.
  GradTarget grad_target() override;
  void end_sum(const std::optional<TensorView>& leaf, const GradTarget& target) override;
  void unscale() override;
  bool skipped() const override { return skipped_; }
  bool fused() const override { return fused_; }
  StepDecision decision() const override;
  void norm() override;
  void clip() override;
  void prepare_update() override;
  void add_trust_norms(Span<const TrustNorms> norms) override;
  void update() override;
  void cast() override;
  std::vector<ExposedBuffer> exposed(Phase phase) override;
  void overwritten(Phase phase) override;
  LossScalerState loss_scaler() const override { return record_.read().state.scaler; }
  std::int64_t applied_steps() const override {
    return static_cast<std::int64_t>(record_.read().state.applied_steps);
  }

  // The same step without host reads in between. Only with fused passes.

  /// Enqueues the copies of the host's inputs of the step: divisor, tensors with a gradient,
  /// schedule. latest_t: the step's number if no step since the last host read is skipped; seen_t:
  /// if all are. slot: a number below most_enqueued that no other running step has. Collective if
  /// the setup counts tokens or gradients over ranks.
  virtual void enqueue_inputs(GradSource& leaves, std::int64_t seen_t, std::int64_t latest_t,
                              std::int64_t slot);
  /// The first range: this rank's results from G, unless they were computed already.
  virtual void enqueue_find() const;
  /// The exchange between ranks.
  virtual void enqueue_integers() const;
  /// The second range: the decision and the update.
  virtual void enqueue_update() const;
  /// The same in two parts, if the host updates a part of the elements: the decision without the
  /// count, then a host read.
  void enqueue_decision() const;
  /// Waits for it. False if the step is skipped or stopped.
  bool look_at_decision();
  /// Runs the resident part of such an update as a range of the step.
  using RunStretch = std::function<void(const std::function<void()>& stretch)>;
  void run_updates_with(RunStretch run) { run_update_ = std::move(run); }
  /// The second range in three parts, if the trust ratios need an exchange between ranks (R6): the
  /// decision and the norms; the exchange; the ratios and the update.
  bool joins_trust() const;
  void enqueue_trust_norms() const;
  void enqueue_trust_exchange() const;
  void enqueue_scaled_update() const;
  /// The same for a rule with matrices (R28): the decision and the momentum; for every batch of
  /// matrices the elements from other ranks, Newton-Schulz, and the elements back; the update after
  /// the decision, up to the magnitudes of new masters.
  bool joins_matrices() const { return matrices_ && matrices_->joins(); }
  void enqueue_momentum() const;
  DeviceMatrices& matrices() const { return *matrices_; }
  void enqueue_decided_update() const;
  /// Parameters or state with scales, after the update: the exchange of magnitudes between ranks,
  /// if needed, and the values computed from them. No effect otherwise.
  bool joins_amax() const {
    return (!scales_.empty() && scales_.front()->joins()) || (stored_ && stored_->joins());
  }
  virtual void enqueue_amax() const;
  virtual void enqueue_params() const;
  /// Stores the step as read by the host, for skipped().
  void store_record(const device::StepRecord& record) { skipped_ = record.found.skipped != 0; }

  const device::StepRecord* record() const { return record_.data(); }
  /// Errors: nonfinite, comm or invalid_argument if a step was stopped.
  void throw_if_halted(const device::StepState& state) const;
  /// Addresses of all memory that kernels use.
  virtual std::vector<const void*> addresses() const;

 protected:
  bool per_tensor() const { return shard_.setup.missing_grad == MissingGrad::skip; }
  bool alone() const;
  void enqueue_decide_all(std::uint32_t parts) const;
  void enqueue_counted_update() const;
  void decide(std::uint32_t parts) const;
  bool has_trust_ratios() const { return trust_ratios_.count() > 0; }
  /// Adds the norms of the elements whose state is here.
  void enqueue_own_trust_norms() const;
  /// Fused updates of all elements whose state is here in fp32.
  void enqueue_fused_updates() const;
  void enqueue_casts() const;
  /// Runs a part of the phase update as a range of the step, if the step has such ranges.
  void run_part(const std::function<void()>& part) const;
  /// Magnitudes of this rank's new masters.
  void enqueue_collect() const;
  void take_counters(const FullState& state);
  void cast_loaded(const FullState& state);
  void enqueue_schedule(std::int64_t first_t);
  void read_record();
  /// Target of the measurement for code that writes G.
  virtual void begin_measurement(device::StepFound* found);
  /// finite_norm has to measure G again.
  void discard_measurement();
  void send_inputs(GradSource& leaves, std::int64_t seen_t, std::int64_t latest_t,
                   std::int64_t slot);
  bool several_norms() const { return memory_.groups_found.count > 1; }
  /// Nothing has been added to the integers of the norms.
  void clear_norms() const;
  /// Words of the device, over every rank of the step; those of the norm, over ranks that have
  /// other elements.
  void all_reduce_step(std::uint64_t* words, std::size_t count, IntegerReduce op) const;
  void all_reduce_norm() const;
  /// Communicators of ranks that count other elements.
  std::vector<Communicator*> counted_groups() const;
  /// Only its address is used here.
  template <class T>
  static void clear(T& in_device_memory) {
    device_space().fill(&in_device_memory, 0, sizeof(T));
  }

  /// Steps per schedule table.
  static constexpr std::int64_t max_schedule_rows = 1024;
  static_assert(max_schedule_rows > 2 * EnqueuedOptimizer::most_enqueued);

  RankShard& shard_;
  const CommGroups comm_groups_;
  const bool fused_;
  const device::StepRules rules_;
  SpaceArray<device::StepRecord> record_;
  SpaceArray<device::StepInput> input_;
  SpaceArray<StepScalars> scalars_;  // [groups], or [num_tensors] if they count their own steps
  // [num_tensors] if they count their own steps, else empty.
  SpaceArray<std::uint64_t> tensor_steps_;
  SpaceArray<std::uint64_t> has_grad_;        // one bit per tensor, the same
  SpaceArray<std::int64_t> tensor_groups_;    // [num_tensors], the same, or with trust ratios
  SpaceArray<device::ScheduleRow> schedule_;  // [rows][groups]
  SpaceArray<device::StepPiece> pieces_;
  SpaceArray<std::uint64_t> counted_;  // in the form of GradMeasurement; empty if all tensors count
  // [clip groups][num_norm_words] if there are several, else empty.
  SpaceArray<std::uint64_t> group_sums_;
  SpaceArray<std::uint64_t> group_amax_;  // [clip groups], the same, as the four below
  SpaceArray<std::uint32_t> group_largest_;
  SpaceArray<double> group_norms_;
  SpaceArray<float> group_coefs_;
  SpaceArray<double> group_limits_;
  SpaceArray<std::uint64_t>
      trust_sums_;  // [num_tensors][2][num_norm_words] with trust ratios, else empty
  SpaceArray<float> trust_ratios_;       // [num_tensors], the same
  SpaceArray<device::StepFound> aside_;  // results of phase reduce that phase unscale reports
  // Sources of copies to the device, each slot until its step is finished; the schedule for longer
  // than any step runs.
  PinnedArray<device::StepInput> inputs_;          // [most_enqueued]
  PinnedArray<std::uint64_t> grad_bits_;           // [most_enqueued][words of has_grad_]
  PinnedArray<device::ScheduleRow> rows_;          // as schedule_
  SpaceArray<device::StepPiece> resident_pieces_;  // with a split, else empty
  device::StepMemory memory_;
  /// Of scaled_shards(); empty: no scales.
  const std::vector<std::unique_ptr<DeviceScales>> scales_;
  const std::unique_ptr<DeviceState> stored_;  ///< null: state and master are fp32
  std::unique_ptr<DeviceMatrices> matrices_;   ///< null: the rule updates no matrices
  /// `memory_` for ranges whose state is here; one without a split. Not of matrices.
  std::vector<device::StepMemory> updated_;
  std::int64_t numel_ = 0;  ///< of all pieces
  /// Elements of this step's G that were measured when they were written.
  std::int64_t num_measured_ = 0;
  device::StepFound* measurement_ = nullptr;  ///< results for them
  std::int64_t first_row_t_ = 0;              ///< of the schedule table; 0: none yet
  std::int64_t num_rows_ = 0;
  std::int64_t divisor_ = 0;  ///< the current value on the device; 0: none yet
  bool skipped_ = false;
  bool enqueued_ = false;                    ///< the whole step is enqueued, including its cast
  std::vector<TrustNorms> trust_elsewhere_;  ///< for the next update; empty: none
  RunStretch run_update_;                    ///< null: updates run directly
};

}  // namespace zeroproof::cuda
