#include "verification/judge/rank_comparison.hpp"
#include "verification/program/out_of_memory.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "verification/case/stopwatch.hpp"

namespace zeroproof::verification {
namespace {

template <class T>
T read(const std::map<BufferId, ExposedBuffer>& buffers, BufferId id) {
  T value;
  std::memcpy(&value, buffers.at(id).view.data, sizeof(T));
  return value;
}

/// Whether a buffer of values has one of which test is true.
template <class T, class Test>
bool any_of(const std::map<BufferId, ExposedBuffer>& buffers, BufferId id, const Test& test) {
  const TensorView& view = buffers.at(id).view;
  const auto* values = static_cast<const T*>(view.data);
  return std::any_of(values, values + view.numel, test);
}

std::map<BufferId, ExposedBuffer> by_id(std::vector<ExposedBuffer> buffers) {
  std::map<BufferId, ExposedBuffer> map;
  for (ExposedBuffer& buffer : buffers) {
    const BufferId id = buffer.id;
    const bool first = map.emplace(id, std::move(buffer)).second;
    ZP_CHECK(first, ErrorCode::internal, std::string(name(id)) + " is exposed twice in one phase",
             "only one of the two would be compared", "expose every buffer once");
  }
  return map;
}

/// Bytes the phases unscale to cast read and write per element.
std::int64_t bytes_per_element(Twin twin, DType param_dtype, int state_buffers) {
  const std::int64_t param = num_bytes(param_dtype);
  const std::int64_t update = 8 * (1 + state_buffers);  // master and state are read and written
  if (twin.fused) return 4 + (4 + update + param);      // read G; read G, update, write param
  return 8 + 4 + 8 + (4 + update) + (4 + param);        // unscale, norm, clip, update, cast
}

constexpr BufferId state_ids[] = {BufferId::exp_avg, BufferId::exp_avg_sq, BufferId::max_exp_avg_sq,
                                  BufferId::momentum_buffer};

}  // namespace

RankComparison::RankComparison(const Experiment& experiment, const CaseSpec& spec, const CaseLayout& layout,
                               const Communicators& comms, int omp_threads,
                               const MakeOptimizer& make_candidate, const MakeOptimizer& make_reference,
                               GradStatsFn* candidate_stats)
    : experiment_(experiment),
      spec_(spec),
      layout_(layout),
      comms_(comms),
      place_(layout.place(comms.harness->rank())),
      reference_groups_(layout, *comms.reference),
      candidate_groups_(layout, *comms.candidate),
      harness_groups_(layout, *comms.harness),
      account_(spec_),
      grad_maker_(experiment, spec_, layout, *comms.harness, harness_groups_.tp(), harness_groups_.cp()),
      skip_stats_(experiment, spec_, layout, *comms.harness, {.num_threads = omp_threads},
                  candidate_stats != nullptr ? candidate_stats : grad_stats_of(spec.twin)) {
  OptimizerSetup setup = experiment.setup();
  place_setup(setup, spec_, layout, comms.harness->rank());
  setup.overlap = false;
  setup.windows = Windows::off;
  // The reference has no native sum: it makes the contract's, and the candidate's is judged by its bound.
  if (setup.grad_sum == GradSum::native) setup.grad_sum = GradSum::tree;
  reference_groups_.place(setup);
  reference_ = make_reference(setup);
  setup.grad_sum = spec.place.grad_sum;
  setup.overlap = spec.place.overlap;
  setup.windows = spec.place.windows;
  setup.exec.num_threads = omp_threads;
  candidate_groups_.place(setup);
  account_.place(setup);
  candidate_ = make_candidate(setup);
  harness_groups_.place(setup);
  harness_setup_ = setup;
  load_first_state();
  storage_ = candidate_->storage();
  std::int64_t numel = 0;
  const Buffers update = by_id(reference_->exposed(Phase::update));
  for (const Piece& piece : pieces_of(update.at(BufferId::master))) numel += piece.numel;
  int states = 0;
  for (const BufferId id : state_ids) states += update.count(id) > 0 ? 1 : 0;
  timing_.reference_bytes = numel * bytes_per_element(Twin::host, experiment.param_dtype(), states);
  timing_.candidate_bytes = numel * bytes_per_element(spec.twin, experiment.param_dtype(), states);
  compare_loaded_state();
}

void RankComparison::load_first_state() {
  FullState state = experiment_.initial_state();
  std::array<std::vector<float>, 5> cut;  // of this TP rank, until both sides have copied them
  if (!local().placement.empty()) {
    Span<const float> FullState::*const fields[] = {&FullState::master, &FullState::exp_avg,
                                                    &FullState::exp_avg_sq, &FullState::max_exp_avg_sq,
                                                    &FullState::momentum_buffer};
    for (std::size_t i = 0; i < cut.size(); ++i) {
      cut[i] = layout_.to_local(place_.tp_rank, state.*fields[i]);
      state.*fields[i] = cut[i];
    }
  }
  reference_->load_state(state);
  candidate_->load_state(state);
}

void RankComparison::compare_loaded_state() {
  for (const Phase phase : {Phase::update, Phase::cast, Phase::gather}) {
    const Buffers ours = by_id(reference_->exposed(phase));
    const Buffers theirs = by_id(candidate_->exposed(phase));
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
    // Of memory that several ranks share, each one writes what it owns.
    const std::vector<Piece> pieces = theirs.shared ? owned_pieces() : pieces_of(theirs);
    for (const Piece& piece : pieces) {  // padding keeps the candidate's poison
      const std::int64_t width = num_bytes(theirs.view.dtype);
      std::memcpy(static_cast<std::byte*>(theirs.view.data) + piece.local_begin * width,
                  static_cast<const std::byte*>(ours.data) + piece.local_begin * width,
                  static_cast<std::size_t>(piece.numel * width));
    }
  }
  candidate_->overwritten(phase);
}

void RankComparison::count(const Buffers& reference, Phase phase) {
  if (phase == Phase::clip &&
      any_of<float>(reference, BufferId::clip_coef, [](float coef) { return coef < 1.0F; }))
    ++clipped_steps_;
  if (phase != Phase::update) return;
  const ExposedBuffer& master = reference.at(BufferId::master);
  const auto* values = static_cast<const float*>(master.view.data);
  std::int64_t nan_elements = 0;
  std::int64_t moved_elements = 0;
  for (const Piece& piece : pieces_of(master)) {
    updated_elements_ += piece.numel;
    for (std::int64_t i = piece.local_begin; i < piece.local_begin + piece.numel; ++i) {
      const float before = master_before_[static_cast<std::size_t>(i)];
      const bool number = !std::isnan(before);
      nan_elements += number ? 0 : 1;
      moved_elements += (number & (before != values[i])) ? 1 : 0;
    }
  }
  nan_elements_ += nan_elements;
  moved_elements_ += moved_elements;
}

/// What there is to say of a phase of the reference by itself.
void RankComparison::look_at(std::int64_t step, Phase phase, const Buffers& reference,
                             const reference::DenseOptimizer* truth) {
  if (truth != nullptr) compare_with_truth(step, phase, reference, *truth);
  count(reference, phase);
}

void RankComparison::remember_master() {
  const TensorView master = by_id(reference_->exposed(Phase::update)).at(BufferId::master).view;
  const auto* values = static_cast<const float*>(master.data);
  master_before_.assign(values, values + master.numel);
}

/// What a phase needs memory for, by phase.
constexpr std::array<const char*, std::size(all_phases)> buffers_of = {
    "step scalars (phase prepare)",       "leaves and their sums (phase reduce)",
    "unscaled gradients (phase unscale)", "limbs of norms (phase norm)",
    "clipped gradients (phase clip)",     "master weights and state (phase update)",
    "parameter shards (phase cast)",      "whole parameters (phase gather)"};

void RankComparison::run_phase(std::int64_t step, Phase phase, GradSource& for_reference,
                               GradSource& for_candidate, const reference::DenseOptimizer* truth) {
  const MemoryPurpose purpose(buffers_of[static_cast<std::size_t>(phase)]);
  if (phase == Phase::update) remember_master();
  const Stopwatch watch;
  reference_->run_phase(phase, for_reference);
  const double reference_seconds = watch.seconds();
  const Stopwatch candidate_watch;
  candidate_->run_phase(phase, for_candidate);
  const double candidate_seconds = candidate_watch.seconds();
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
  remember_storage(phase, lockstep ? theirs : Buffers{});
}

void RankComparison::run_step(std::int64_t step, GradCache& leaves, const reference::DenseOptimizer* truth) {
  require_fp_environment("rank " + std::to_string(comms_.harness->rank()));
  const Scales before{reference_->loss_scaler().log2_scale, candidate_->loss_scaler().log2_scale};
  const StepGrads ours(grad_maker_, leaves, *reference_, step, before.reference);
  // In lock-step both sides have the same parameters; several ranks that compute one leaf then need to do it once.
  const bool share = grad_maker_.together() && spec_.mode == Mode::lockstep;
  const StepGrads theirs(grad_maker_, leaves, *candidate_, step, before.candidate, share ? &ours : nullptr);
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
                 theirs.layers() != nullptr ? theirs.layers()->finish(grad_maker_.own_micro_batches())
                                            : for_candidate.finish(grad_maker_.own_micro_batches()));
  };
  if (spec_.mode == Mode::whole) {
    sums = run_whole(step, for_reference, for_candidate, truth);
    finish_leaves();
    if (!agree_to_skip(step, Phase::unscale)) return;
  } else {
    for (const Phase phase : all_phases) {
      if (skipped_on_overflow(phase) && reference_->skipped()) continue;
      run_phase(step, phase, for_reference, for_candidate, truth);
      if (phase == Phase::reduce) {
        sums = {collected_sum(*reference_), collected_sum(*candidate_)};
        keep_sums(sum_of(*reference_));
        finish_leaves();
      }
      if (phase == Phase::prepare && candidate_->skipped()) {
        note_problem(step, phase, "found_inf", "says that this step is skipped before it began");
      }
      if (phase == Phase::unscale && !agree_to_skip(step, phase)) return;
    }
  }
  account_.end_step(*candidate_);
  note_problem(step, Phase::reduce, "leaf", for_candidate.end_step());
  if (reference_->skipped()) {
    check_skipped_scalars(step);
    tell_skip(step, truth);
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

void RankComparison::tell_skip(std::int64_t step, const reference::DenseOptimizer* truth) {
  SkipStats::Told told = skip_stats_.tell(step, truth);
  skips_.push_back(std::move(told.skip));
  if (!told.difference) return;
  Divergence d = place(step, Phase::reduce, "grad_stats", told.difference->what);
  d.parameter = told.difference->parameter;
  d.reference_value = told.difference->reference;
  d.candidate_value = told.difference->candidate;
  judge_.note(std::move(d));
}

/// In a free run the sides (or, with a broken candidate, its ranks) may disagree about skipping: all ranks must learn
/// of it together, or the next collective would wait for ranks that never come.
bool RankComparison::agree_to_skip(std::int64_t step, Phase phase) {
  std::uint64_t disagree = reference_->skipped() != candidate_->skipped() ? 1 : 0;
  if (disagree != 0) {
    note_problem(step, phase, "found_inf",
                 candidate_->skipped() ? "makes the candidate skip a step that the reference applies"
                                       : "lets the candidate apply a step that the reference skips");
  }
  comms_.harness->all_reduce({&disagree, 1}, IntegerReduce::bitwise_or);
  stopped_ = disagree != 0;
  return !stopped_;
}

RankComparison::Sums RankComparison::run_whole(std::int64_t step, GradSource& for_reference,
                                               GradSource& for_candidate,
                                               const reference::DenseOptimizer* truth) {
  std::map<Phase, Buffers> ours;
  std::vector<GuardedBuffer> kept;  // the reference uses memory again
  Sums sums;
  for (const Phase phase : all_phases) {
    const bool left_out = skipped_on_overflow(phase) && reference_->skipped();
    if (left_out && phase < Phase::update) continue;  // norm and coefficient are NaN then
    if (!left_out) {
      if (phase == Phase::update) remember_master();
      const Stopwatch watch;
      reference_->run_phase(phase, for_reference);
      if (phase >= Phase::unscale && phase <= Phase::cast) timing_.reference_seconds += watch.seconds();
    }
    // What a skipped step leaves is what was there: a candidate that looks at nothing in between may have changed it.
    Buffers& now = ours[phase] = by_id(reference_->exposed(phase));
    if (!left_out) look_at(step, phase, now, truth);
    if (phase == Phase::reduce) sums.reference = collected_sum(*reference_);
    for (auto& [id, buffer] : now) {
      const GuardedBuffer& copy =
          kept.emplace_back(buffer.view.numel, buffer.view.dtype, BufferFill::untouched);
      if (buffer.view.numel > 0) {
        std::memcpy(copy.data(), buffer.view.data, static_cast<std::size_t>(buffer.view.num_bytes()));
      }
      buffer.view = copy.view();
    }
  }
  candidate_->step(for_candidate);
  sums.candidate = collected_sum(*candidate_);
  keep_sums(ours.at(Phase::reduce).at(BufferId::grad_sum));
  for (const auto& [phase, reference] : ours) {
    const Buffers theirs = by_id(candidate_->exposed(phase));
    compare_phase(step, phase, reference, theirs, truth);
    check_padding(step, phase, theirs);
    check_red_zones(step, phase);
    // Somebody else's step begins where the reference does: a difference is of this one.
    if (spec_.twin.foreign) overwrite(phase, reference, theirs, {});
  }
  return sums;
}

void RankComparison::check_skipped_scalars(std::int64_t step) {
  const auto is_number = [](auto value) { return value == value; };
  const Buffers norm = by_id(candidate_->exposed(Phase::norm));
  const Buffers clip = by_id(candidate_->exposed(Phase::clip));
  if (any_of<double>(norm, BufferId::grad_norm, is_number) ||
      any_of<float>(clip, BufferId::clip_coef, is_number)) {
    note_problem(step, Phase::unscale, "grad_norm", "or clip_coef is a number although the step was skipped");
  }
}

TensorView RankComparison::collected(const TensorView& mine, std::vector<GuardedBuffer>& memory) {
  StateCollector& collector = grad_maker_.collector();
  if (collector.whole_on_root()) return mine;
  return memory.emplace_back(collector.collect(mine)).view();
}

TensorView RankComparison::collected_params(DistributedOptimizer& side, std::vector<GuardedBuffer>& memory) {
  if (spec_.stage == 3 || !local().placement.empty()) {
    return collected(by_id(side.exposed(Phase::cast)).at(BufferId::param_shard).view, memory);
  }
  return by_id(side.exposed(Phase::gather)).at(BufferId::param_full).view;  // what the model sees, on rank 0
}

void RankComparison::hash_step(std::int64_t step, const Scales& scales, const GuardedBuffer& reference_grad,
                               const GuardedBuffer& candidate_grad) {
  const auto add = [&](DistributedOptimizer& side, int log2_scale, const GuardedBuffer& grad,
                       TrajectoryHash& hash) {
    const Buffers update = by_id(side.exposed(Phase::update));
    std::vector<GuardedBuffer> memory;
    std::vector<TensorView> views = {grad.view(), collected(update.at(BufferId::master).view, memory)};
    for (const BufferId id : state_ids) {
      // A candidate that hides state is reported by compare_phase; its hash is then simply another one.
      if (update.count(id) > 0) views.push_back(collected(update.at(id).view, memory));
    }
    views.push_back(collected_params(side, memory));
    if (comms_.harness->rank() != 0) return;
    TrajectoryHash::Scalars s;
    s.step = step;
    const Buffers prepared = by_id(side.exposed(Phase::prepare));
    s.step_scalars = prepared.at(BufferId::step_scalars).view;
    if (update.count(BufferId::tensor_steps) > 0) s.tensor_steps = update.at(BufferId::tensor_steps).view;
    s.found_inf = read<std::uint32_t>(by_id(side.exposed(Phase::unscale)), BufferId::found_inf) != 0;
    s.skipped = side.skipped();
    s.grad_norm = by_id(side.exposed(Phase::norm)).at(BufferId::grad_norm).view;
    s.clip_coef = by_id(side.exposed(Phase::clip)).at(BufferId::clip_coef).view;
    s.log2_loss_scale = log2_scale;
    hash.add_step(s, experiment_.layout(), views);
  };
  add(*reference_, scales.reference, reference_grad, reference_hash_);
  add(*candidate_, scales.candidate, candidate_grad, candidate_hash_);
}

}  // namespace zeroproof::verification
