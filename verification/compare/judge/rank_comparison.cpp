#include "verification/compare/judge/rank_comparison.hpp"

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/fpenv.hpp"
#include "common/step/param_scaling.hpp"
#include "verification/cases/stopwatch.hpp"
#include "verification/compare/judge/making_order.hpp"
#include "verification/compare/judge/mean_loss.hpp"
#include "verification/compare/judge/rank_buffers.hpp"

namespace zeroproof::verification {

RankComparison::RankComparison(const Experiment& experiment, const CaseSpec& spec,
                               const CaseLayout& layout, const Communicators& comms,
                               int omp_threads, const MakeOptimizer& make_candidate,
                               const MakeOptimizer& make_reference, GradStatsFn* candidate_stats)
    : experiment_(experiment),
      spec_(spec),
      layout_(layout),
      comms_(comms),
      place_(layout.place(comms.harness->rank())),
      reference_groups_(layout, *comms.reference),
      candidate_groups_(layout, *comms.candidate),
      harness_groups_(layout, *comms.harness),
      account_(spec_),
      grad_maker_(experiment, spec_, layout, *comms.harness, harness_groups_.tp(),
                  harness_groups_.cp()),
      skip_stats_(
          experiment, spec_, layout, *comms.harness, {.num_threads = omp_threads},
          candidate_stats != nullptr ? candidate_stats : grad_stats_of(spec.implementation)) {
  OptimizerSetup setup = experiment.setup();
  place_setup(setup, spec_, layout, comms.harness->rank());
  setup.overlap = false;
  setup.windows = Windows::off;
  setup.offload.fraction = 0;
  // The reference has no native sum: it computes the contract's, and the candidate's is checked
  // against its bound.
  if (setup.grad_sum == GradSum::native) setup.grad_sum = GradSum::tree;
  reference_groups_.place(setup);
  reference_ = make_reference(setup);
  reference_setup_ = setup;
  setup.grad_sum = spec.place.grad_sum;
  setup.overlap = spec.place.overlap;
  setup.windows = spec.place.windows;
  setup.offload.fraction = spec.place.offload.fraction;
  setup.exec.num_threads = omp_threads;
  candidate_groups_.place(setup);
  if (comms.keep_messages) messages_.emplace().place(setup);
  account_.place(setup);
  candidate_ = make_candidate(setup);
  harness_groups_.place(setup);
  harness_setup_ = setup;
  load_first_state();
  storage_ = candidate_->storage();
  count_bytes();
  check_messages();
  compare_loaded_state();
}

void RankComparison::check_messages() {
  if (!messages_) return;
  const auto broken = messages_->check(harness_setup_, comms_.harness->rank());
  if (!broken_message_) broken_message_ = broken;
}

void RankComparison::load_first_state() {
  FullState state = experiment_.initial_state();
  // of this TP rank, valid until both sides have copied them
  std::vector<float> master;
  PerSlot<std::vector<float>> slots;
  if (!local().placement.empty()) {
    state.master = master = layout_.to_local(place_.tp_rank, state.master);
    for (const StateSlot slot : all_state_slots)
      state.slots[slot] = slots[slot] = layout_.to_local(place_.tp_rank, state.slots[slot]);
  }
  reference_->load_state(state);
  candidate_->load_state(state);
}

void RankComparison::compare_loaded_state() {
  const bool dequantised = has_scales(reference_setup_.param_dtype) &&
                           reference_setup_.scaling.initial_master == InitialMaster::dequantised;
  for (const auto& [phase, of_columns] : loading_order(dequantised)) {
    const auto part = [columns = of_columns](std::vector<ExposedBuffer> buffers) {
      std::erase_if(buffers, [&](const ExposedBuffer& buffer) {
        return is_cast_of_columns(buffer.id) != columns;
      });
      return by_id(std::move(buffers));
    };
    const Buffers ours = part(reference_->exposed(phase));
    const Buffers theirs = part(candidate_->exposed(phase));
    const std::set<BufferId> same = compare_phase(0, phase, ours, theirs, nullptr);
    check_padding(0, phase, theirs);
    if (spec_.mode == Mode::lockstep) overwrite(phase, ours, theirs, same);
  }
  check_red_zones(0, Phase::update);
  stored_.resize(storage_.size());
  changed_.assign(storage_.size(), false);
  for (std::size_t i = 0; i < storage_.size(); ++i) store(i);
}

void RankComparison::overwrite(Phase phase, const Buffers& reference, const Buffers& candidate,
                               const std::set<BufferId>& same) {
  for (const auto& [id, theirs] : candidate) {
    if (same.count(id) > 0) continue;
    const TensorView& ours = reference.at(id).view;
    // In memory shared by several ranks each rank writes the elements it owns.
    const std::vector<Piece> pieces = theirs.shared ? owned_pieces() : pieces_of(theirs);
    for (const Piece& piece : pieces) {  // padding keeps the poison of the candidate
      const std::int64_t width = num_bytes(theirs.view.dtype);
      std::memcpy(static_cast<std::byte*>(theirs.view.data) + piece.local_begin * width,
                  static_cast<const std::byte*>(ours.data) + piece.local_begin * width,
                  static_cast<std::size_t>(piece.numel * width));
    }
  }
  candidate_->overwritten(phase);
}

/// Checks a phase of the reference itself.
void RankComparison::look_at(std::int64_t step, Phase phase, const Buffers& reference,
                             const reference::DenseOptimizer* truth) {
  if (truth != nullptr) compare_with_truth(step, phase, reference, *truth);
  count(reference, phase);
}

bool RankComparison::run_phase(std::int64_t step, Phase phase, GradSource& for_reference,
                               GradSource& for_candidate, const reference::DenseOptimizer* truth) {
  if (phase == Phase::update) remember_master();
  const Stopwatch watch;
  const bool ours_stops =
      stops_at_overflow(phase, [&] { reference_->run_phase(phase, for_reference); });
  const double reference_seconds = watch.seconds();
  const Stopwatch candidate_watch;
  const bool theirs_stops =
      stops_at_overflow(phase, [&] { candidate_->run_phase(phase, for_candidate); });
  const double candidate_seconds = candidate_watch.seconds();
  check_messages();
  if (phase == Phase::unscale && end_at_overflow(step, ours_stops, theirs_stops, truth))
    return false;
  if (phase >= Phase::unscale && phase <= Phase::cast && !reference_->skipped()) {
    timing_.reference_seconds += reference_seconds;
    timing_.candidate_seconds += candidate_seconds;
  }
  const Buffers ours = by_id(reference_->exposed(phase));
  const Buffers theirs = by_id(candidate_->exposed(phase));
  const std::set<BufferId> same = compare_phase(step, phase, ours, theirs, truth);
  look_at(step, phase, ours, truth);
  check_write_set(step, phase);
  check_padding(step, phase, theirs);
  const bool lockstep = spec_.mode == Mode::lockstep;
  if (lockstep) overwrite(phase, ours, theirs, same);
  if (any_order_) any_order_->keep(ours);
  remember_storage(phase, lockstep ? theirs : Buffers{});
  return true;
}

void RankComparison::run_step(std::int64_t step, GradCache& leaves,
                              const reference::DenseOptimizer* truth) {
  require_fp_environment("rank " + std::to_string(comms_.harness->rank()));
  if (any_order_) {
    any_order_->begin_step(reference_->applied_steps() + 1);
    any_order_->keep(by_id(reference_->exposed(Phase::update)));  // of the first state, at first
  }
  const Scales before{reference_->loss_scaler().log2_scale, candidate_->loss_scaler().log2_scale};
  const StepGrads ours(grad_maker_, leaves, *reference_, step, before.reference);
  // In lock-step both sides have the same parameters, so ranks that compute a gradient together
  // compute it once.
  const bool share = grad_maker_.together() && spec_.mode == Mode::lockstep;
  const StepGrads theirs(grad_maker_, leaves, *candidate_, step, before.candidate,
                         share ? &ours : nullptr);
  ProvidedGrads for_reference(experiment_, step, ours.provider(), ours.layers());
  StrictGrads for_candidate(experiment_, step, theirs.provider(), theirs.layers());
  account_.begin(theirs.layers());
  if (spec_.mode != Mode::lockstep) {
    note_losses(reference_losses_, ours);
    note_losses(candidate_losses_, theirs);
  }
  if (spec_.place.grad_sum == GradSum::native) {
    exact_sums_ = exact_sums(harness_setup_, grad_maker_.own_micro_batches(), ours.provider());
  }
  Sums sums;
  const auto finish_leaves = [&] {
    note_problem(step, Phase::reduce, "leaf",
                 theirs.layers() != nullptr
                     ? theirs.layers()->finish(grad_maker_.own_micro_batches())
                     : for_candidate.finish(grad_maker_.own_micro_batches()));
  };
  if (spec_.mode == Mode::whole) {
    sums = run_whole(step, for_reference, for_candidate, truth);
    finish_leaves();
    if (stopped_) return;
    if (!agree_to_skip(step, Phase::unscale)) return;
  } else {
    for (const Phase phase : all_phases) {
      if (skipped_on_overflow(phase) && reference_->skipped()) continue;
      if (!run_phase(step, phase, for_reference, for_candidate, truth)) return;
      if (phase == Phase::reduce) {
        sums = {collected_sum(*reference_), collected_sum(*candidate_)};
        keep_sums(sum_of(*reference_));
        finish_leaves();
      }
      if (phase == Phase::prepare && candidate_->skipped()) {
        note_problem(step, phase, "found_inf", "is set before the step began");
      }
      if (phase == Phase::unscale && !agree_to_skip(step, phase)) return;
    }
  }
  account_.end_step(*candidate_);
  note_problem(step, Phase::reduce, "leaf", for_candidate.end_step());
  if (reference_->skipped()) {
    check_skipped_scalars(step);
    compare_skip(step, truth);
    ++skipped_steps_;
  } else {
    ++timing_.steps;
  }
  if (reference_->loss_scaler().log2_scale > before.reference) ++growths_;
  hash_step(step, before, sums.reference, sums.candidate);
}

void RankComparison::note_losses(std::vector<double>& losses, const StepGrads& grads) {
  losses.push_back(mean_loss(losses_of(grads.provider(), grad_maker_.own_micro_batches()),
                             experiment_.config().micro_batches, *comms_.harness));
}

ExposedBuffer RankComparison::sum_of(DistributedOptimizer& side) {
  return by_id(side.exposed(Phase::reduce)).at(BufferId::grad_sum);
}

void RankComparison::keep_sums(const ExposedBuffer& reference) {
  if (experiment_.config().on_nonfinite == OnNonfinite::skip)
    skip_stats_.keep(reference, sum_of(*candidate_));
}

void RankComparison::compare_skip(std::int64_t step, const reference::DenseOptimizer* truth) {
  SkipStats::Comparison compared = skip_stats_.compare(step, truth);
  skips_.push_back(std::move(compared.skip));
  if (!compared.difference) return;
  Divergence d = place(step, Phase::reduce, "grad_stats", compared.difference->what);
  d.parameter = compared.difference->parameter;
  d.reference_value = compared.difference->reference;
  d.candidate_value = compared.difference->candidate;
  judge_.note(std::move(d));
}

/// In a free run the sides (or, with a faulty candidate, its ranks) may disagree about skipping:
/// all ranks must find out together, or the next collective would wait for ranks that never come.
bool RankComparison::agree_to_skip(std::int64_t step, Phase phase) {
  std::uint64_t disagree = reference_->skipped() != candidate_->skipped() ? 1 : 0;
  if (disagree != 0) {
    note_problem(step, phase, "found_inf",
                 candidate_->skipped()
                     ? "makes the candidate skip a step that the reference applies"
                     : "lets the candidate apply a step that the reference skips");
  }
  comms_.harness->all_reduce({&disagree, 1}, IntegerReduce::bitwise_or);
  stopped_ = disagree != 0;
  return !stopped_;
}

bool RankComparison::stops_at_overflow(Phase phase, const std::function<void()>& work) const {
  try {
    work();
  } catch (const Error& error) {
    const bool expected =
        phase == Phase::unscale && experiment_.config().on_nonfinite == OnNonfinite::error;
    if (!expected || error.code() != ErrorCode::nonfinite) throw;
    return true;
  }
  return false;
}

bool RankComparison::end_at_overflow(std::int64_t step, bool reference, bool candidate,
                                     const reference::DenseOptimizer* truth) {
  if (experiment_.config().on_nonfinite != OnNonfinite::error) return false;
  if (reference != candidate) {
    note_problem(step, Phase::unscale, "found_inf",
                 candidate ? "ends the run of the candidate at finite gradients"
                           : "does not end the run of the candidate");
  }
  std::uint64_t any = reference || candidate ? 1 : 0;
  comms_.harness->all_reduce({&any, 1}, IntegerReduce::bitwise_or);
  if (any == 0) return false;
  for (const Phase phase : {Phase::unscale, Phase::update, Phase::cast, Phase::gather}) {
    const auto state = [phase](DistributedOptimizer& side) {
      std::vector<ExposedBuffer> buffers = side.exposed(phase);
      // Of the others in unscale the sides make what they have made when they find the overflow.
      std::erase_if(buffers, [phase](const ExposedBuffer& buffer) {
        return phase == Phase::unscale && buffer.id != BufferId::loss_scaler;
      });
      return by_id(std::move(buffers));
    };
    const Buffers ours = state(*reference_), theirs = state(*candidate_);
    compare_phase(step, phase, ours, theirs, truth);
    if (truth != nullptr) compare_with_truth(step, phase, ours, *truth);
    check_padding(step, phase, theirs);
    check_red_zones(step, phase);
  }
  if (spec_.mode != Mode::whole) check_write_set(step, Phase::unscale);
  ended_ = reference && candidate;
  return stopped_ = true;
}

void RankComparison::check_skipped_scalars(std::int64_t step) {
  const auto is_number = [](auto value) { return value == value; };
  const Buffers norm = by_id(candidate_->exposed(Phase::norm));
  const Buffers clip = by_id(candidate_->exposed(Phase::clip));
  if (any_of<double>(norm, BufferId::grad_norm, is_number) ||
      any_of<float>(clip, BufferId::clip_coef, is_number)) {
    note_problem(step, Phase::unscale, "grad_norm",
                 "or clip_coef is a number although the step was skipped");
  }
}

}  // namespace zeroproof::verification
