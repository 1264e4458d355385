#include "verification/rank_pair.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "reference/distributed_optimizer.hpp"
#include "verification/write_sets.hpp"

namespace zeroproof::verification {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

template <class T>
T read(const std::map<BufferId, ExposedBuffer>& buffers, BufferId id) {
  T value;
  std::memcpy(&value, buffers.at(id).view.data, sizeof(T));
  return value;
}

std::map<BufferId, ExposedBuffer> by_id(std::vector<ExposedBuffer> buffers) {
  std::map<BufferId, ExposedBuffer> map;
  for (ExposedBuffer& buffer : buffers) {
    const BufferId id = buffer.id;
    map.emplace(id, std::move(buffer));
  }
  return map;
}

/// Bytes the phases unscale to cast read and write per element.
std::int64_t bytes_per_element(Twin twin, DType param_dtype) {
  const std::int64_t param = num_bytes(param_dtype);
  if (twin == Twin::host_fused) return 4 + (4 + 24 + param);  // read G; read G, read and write master and moments
  return 8 + 4 + 8 + 28 + (4 + param);                        // unscale, norm, clip, update, cast
}

}  // namespace

RankPair::RankPair(const Experiment& experiment, const CaseSpec& spec, const ShardMap& shards,
                   const Communicators& comms, int omp_threads, const std::string& fault,
                   const MakeOptimizer& make_candidate)
    : experiment_(experiment),
      spec_(spec),
      comms_(comms),
      collector_(experiment.layout(), shards, spec.stage, *comms.harness) {
  OptimizerSetup setup;
  setup.layout = &experiment.layout();
  setup.shards = &shards;
  setup.stage = spec.stage;
  setup.param_dtype = experiment.param_dtype();
  setup.leaf_dtype = experiment.leaf_dtype();
  setup.micro_batches = experiment.config().micro_batches;
  setup.hyper = experiment.config().optimizer;
  setup.scaler = experiment.scaler();
  setup.comm = comms.reference;
  reference_ = reference::make_distributed_optimizer(setup);
  setup.comm = comms.candidate;
  setup.exec.num_threads = omp_threads;
  setup.exec.fault = fault;
  candidate_ = make_candidate(setup);
  reference_->load_state(experiment.initial_state());
  candidate_->load_state(experiment.initial_state());
  storage_ = candidate_->storage();
  std::int64_t numel = 0;
  for (const Piece& piece : pieces_of(by_id(reference_->exposed(Phase::update)).at(BufferId::master))) {
    numel += piece.numel;
  }
  timing_.reference_bytes = numel * bytes_per_element(Twin::host, experiment.param_dtype());
  timing_.candidate_bytes = numel * bytes_per_element(spec.twin, experiment.param_dtype());
  compare_loaded_state();
}

void RankPair::compare_loaded_state() {
  for (const Phase phase : {Phase::update, Phase::cast, Phase::gather}) {
    const Buffers ours = by_id(reference_->exposed(phase));
    const Buffers theirs = by_id(candidate_->exposed(phase));
    compare_phase(0, phase, ours, theirs);
    check_padding(0, phase, theirs);
    if (spec_.mode == Mode::lockstep) overwrite(ours, theirs);
  }
  remember_storage();
}

std::vector<Piece> RankPair::pieces_of(const ExposedBuffer& buffer) const {
  if (buffer.ranges.empty()) return {{-1, 0, 0, 0, buffer.view.numel}};
  return experiment_.layout().pieces(buffer.ranges);
}

PhaseTally& RankPair::tally(Phase phase, BufferId buffer, const char* against) {
  for (PhaseTally& tally : tallies_) {
    if (tally.phase == phase && tally.buffer == buffer && tally.against == against) return tally;
  }
  return tallies_.emplace_back(PhaseTally{phase, buffer, against, 0, 0});
}

void RankPair::note(Divergence divergence) {
  if (divergence_) return;  // only the first one is a cause; later ones may be its consequences
  divergence.rank = comms_.harness->rank();
  divergence_ = std::move(divergence);
}

void RankPair::note_difference(std::int64_t step, Phase phase, const ExposedBuffer& buffer, const std::string& what,
                               const Comparison& comparison, const TensorView& reference,
                               const TensorView& candidate) {
  if (!comparison.first || divergence_) return;
  Divergence d;
  d.step = step;
  d.phase = phase;
  d.buffer = name(buffer.id);
  d.what = what;
  d.compared = comparison.compared;
  d.differing = comparison.differing;
  d.shard_index = comparison.first->index;
  d.reference_value = show_bits(reference.dtype, comparison.first->reference_bits);
  d.candidate_value = show_bits(candidate.dtype, comparison.first->candidate_bits);
  for (const Piece& piece : pieces_of(buffer)) {
    if (piece.tensor < 0) continue;
    const auto inside = [&](std::int64_t local) {
      return local >= piece.local_begin && local < piece.local_begin + piece.numel;
    };
    if (inside(d.shard_index)) {
      d.global_index = piece.global_begin + d.shard_index - piece.local_begin;
      d.parameter = experiment_.layout().tensors()[static_cast<std::size_t>(piece.tensor)].name;
      d.coordinates = experiment_.layout().coordinates(d.global_index);
    }
    if (inside(comparison.last_index)) {
      d.last_global_index = piece.global_begin + comparison.last_index - piece.local_begin;
    }
  }
  note(std::move(d));
}

Comparison RankPair::compare_buffers(const ExposedBuffer& reference, const ExposedBuffer& candidate) const {
  ZP_CHECK(reference.ranges == candidate.ranges && reference.view.numel == candidate.view.numel,
           ErrorCode::internal, "the two sides expose different ranges of " + std::string(name(reference.id)),
           "elements could not be matched", "both must use the case's shard map");
  Comparison result;
  for (const Piece& piece : pieces_of(reference)) {
    result.add(compare(reference.view, candidate.view, piece.local_begin, piece.numel));
  }
  return result;
}

void RankPair::compare_phase(std::int64_t step, Phase phase, const Buffers& reference, const Buffers& candidate) {
  for (const auto& [id, theirs] : candidate) {
    const auto ours = reference.find(id);
    ZP_CHECK(ours != reference.end(), ErrorCode::internal,
             "the candidate exposes " + std::string(name(id)) + " in phase " + std::string(name(phase)),
             "the reference does not, so nothing judges it", "expose the buffers of the contract's table");
    const Comparison result = compare_buffers(ours->second, theirs);
    PhaseTally& sum = tally(phase, id, "reference");
    sum.compared += result.compared;
    sum.differing += result.differing;
    note_difference(step, phase, theirs, "differs from the reference", result, ours->second.view, theirs.view);
  }
}

void RankPair::compare_with_truth(std::int64_t step, Phase phase, const Buffers& reference,
                                  const reference::DenseOptimizer& truth) {
  const reference::DenseStep& last = truth.last_step();
  const auto view = [](const std::vector<float>& values) {
    return TensorView{const_cast<float*>(values.data()), DType::fp32, static_cast<std::int64_t>(values.size())};
  };
  const auto full = [&](BufferId id) -> TensorView {
    switch (id) {
      case BufferId::grad_sum: return view(last.grad_sum);
      case BufferId::unscaled_grad: return view(last.unscaled_grad);
      case BufferId::grad: return view(last.grad);
      case BufferId::exp_avg: return view(truth.exp_avg());
      case BufferId::exp_avg_sq: return view(truth.exp_avg_sq());
      case BufferId::master: return view(truth.master());
      case BufferId::param_shard:
      case BufferId::param_full: return truth.param();
      default: return {};
    }
  };
  for (const auto& [id, ours] : reference) {
    const TensorView whole = full(id);
    if (whole.data == nullptr) continue;
    Comparison result;
    for (const Piece& piece : pieces_of(ours)) {
      const std::int64_t width = num_bytes(whole.dtype);
      // Shift the truth so that both views are addressed by the shard index.
      const TensorView shifted{
          static_cast<std::byte*>(whole.data) + (piece.global_begin - piece.local_begin) * width, whole.dtype,
          piece.local_begin + piece.numel};
      result.add(compare(shifted, ours.view, piece.local_begin, piece.numel));
    }
    PhaseTally& sum = tally(phase, id, "undistributed");
    sum.compared += result.compared;
    sum.differing += result.differing;
    note_difference(step, phase, ours, "of the reference differs from the undistributed optimizer", result, whole,
                    ours.view);
  }
}

void RankPair::remember_storage() {
  storage_digests_.clear();
  for (const ExposedBuffer& buffer : storage_) {
    storage_digests_.push_back(raw_digest(buffer.view.data, buffer.view.num_bytes()));
  }
}

void RankPair::check_write_set(std::int64_t step, Phase phase) {
  for (std::size_t i = 0; i < storage_.size(); ++i) {
    const TensorView& view = storage_[i].view;
    if (may_write(phase, storage_[i].id)) continue;
    if (raw_digest(view.data, view.num_bytes()) == storage_digests_[i]) continue;
    Divergence d;
    d.step = step;
    d.phase = phase;
    d.buffer = name(storage_[i].id);
    d.what = "was changed by a phase that may not write it";
    note(std::move(d));
  }
  const std::string damaged = candidate_->damaged_guard();
  if (damaged.empty()) return;
  Divergence d;
  d.step = step;
  d.phase = phase;
  d.buffer = damaged;
  d.what = "was written outside its bounds (its red zone changed)";
  note(std::move(d));
}

void RankPair::check_padding(std::int64_t step, Phase phase, const Buffers& candidate) {
  for (const auto& [id, buffer] : candidate) {
    if (buffer.ranges.empty()) continue;
    const std::vector<Piece> pieces = pieces_of(buffer);
    std::int64_t next = 0;
    for (std::size_t p = 0; p <= pieces.size(); ++p) {
      const std::int64_t end = p < pieces.size() ? pieces[p].local_begin : buffer.view.numel;
      for (; next < end; ++next) {
        const std::uint64_t bits = element_bits(buffer.view, next);
        if (is_nan_bits(buffer.view.dtype, bits)) continue;
        Divergence d;
        d.step = step;
        d.phase = phase;
        d.buffer = name(id);
        d.what = "has a number in its padding, which must stay poisoned";
        d.shard_index = next;
        d.candidate_value = show_bits(buffer.view.dtype, bits);
        return note(std::move(d));
      }
      if (p < pieces.size()) next = pieces[p].local_begin + pieces[p].numel;
    }
  }
}

void RankPair::overwrite(const Buffers& reference, const Buffers& candidate) {
  for (const auto& [id, theirs] : candidate) {
    const TensorView& ours = reference.at(id).view;
    for (const Piece& piece : pieces_of(theirs)) {  // padding keeps the candidate's poison
      const std::int64_t width = num_bytes(theirs.view.dtype);
      std::memcpy(static_cast<std::byte*>(theirs.view.data) + piece.local_begin * width,
                  static_cast<const std::byte*>(ours.data) + piece.local_begin * width,
                  static_cast<std::size_t>(piece.numel * width));
    }
  }
}

void RankPair::count(const Buffers& reference, Phase phase) {
  if (phase == Phase::clip && read<float>(reference, BufferId::clip_coef) < 1.0F) ++clipped_steps_;
  if (phase != Phase::update) return;
  const TensorView& master = reference.at(BufferId::master).view;
  const auto* values = static_cast<const float*>(master.data);
  for (std::int64_t i = 0; i < master.numel; ++i) {
    if (master_before_[static_cast<std::size_t>(i)] != values[i] && values[i] == values[i]) ++moved_elements_;
  }
}

void RankPair::run_phase(std::int64_t step, Phase phase, LeafSource& for_reference, LeafSource& for_candidate,
                         const reference::DenseOptimizer* truth) {
  if (phase == Phase::update) {
    const TensorView master = by_id(reference_->exposed(Phase::update)).at(BufferId::master).view;
    const auto* values = static_cast<const float*>(master.data);
    master_before_.assign(values, values + master.numel);
  }
  const auto begin = Clock::now();
  reference_->run_phase(phase, for_reference);
  const double reference_seconds = seconds_since(begin);
  const auto middle = Clock::now();
  candidate_->run_phase(phase, for_candidate);
  const double candidate_seconds = seconds_since(middle);
  if (phase >= Phase::unscale && phase <= Phase::cast && !reference_->skipped()) {
    timing_.reference_seconds += reference_seconds;
    timing_.candidate_seconds += candidate_seconds;
  }
  const Buffers ours = by_id(reference_->exposed(phase));
  const Buffers theirs = by_id(candidate_->exposed(phase));
  compare_phase(step, phase, ours, theirs);
  if (truth != nullptr) compare_with_truth(step, phase, ours, *truth);
  check_write_set(step, phase);
  check_padding(step, phase, theirs);
  count(ours, phase);
  if (spec_.mode == Mode::lockstep) overwrite(ours, theirs);
  remember_storage();
}

void RankPair::run_step(std::int64_t step, LeafCache& leaves, const reference::DenseOptimizer* truth) {
  require_fp_environment("rank " + std::to_string(comms_.harness->rank()));
  const auto params = [](DistributedOptimizer& optimizer) {
    return by_id(optimizer.exposed(Phase::gather)).at(BufferId::param_full).view;
  };
  const Scales before{reference_->loss_scaler().log2_scale, candidate_->loss_scaler().log2_scale};
  CachedLeaves for_reference(leaves, step, params(*reference_), before.reference);
  CachedLeaves for_candidate(leaves, step, params(*candidate_), before.candidate);
  GuardedBuffer reference_grad;
  GuardedBuffer candidate_grad;
  for (const Phase phase : all_phases) {
    if (skipped_on_overflow(phase) && reference_->skipped()) continue;
    run_phase(step, phase, for_reference, for_candidate, truth);
    if (phase == Phase::reduce) {
      reference_grad = collector_.collect(by_id(reference_->exposed(phase)).at(BufferId::grad_sum).view);
      candidate_grad = collector_.collect(by_id(candidate_->exposed(phase)).at(BufferId::grad_sum).view);
    }
    if (phase != Phase::unscale) continue;
    // In a free run the sides (or, with a broken candidate, its ranks) may disagree about skipping: all ranks must
    // learn of it together, or the next collective would wait for ranks that never come.
    std::uint64_t disagree = reference_->skipped() != candidate_->skipped() ? 1 : 0;
    comms_.harness->all_reduce({&disagree, 1}, IntegerReduce::bitwise_or);
    if (disagree != 0) {
      stopped_ = true;
      return;
    }
  }
  if (reference_->skipped()) {
    ++skipped_steps_;
  } else {
    ++timing_.steps;
  }
  if (reference_->loss_scaler().log2_scale > before.reference) ++growths_;
  hash_step(step, before, reference_grad, candidate_grad);
}

void RankPair::hash_step(std::int64_t step, const Scales& scales, const GuardedBuffer& reference_grad,
                         const GuardedBuffer& candidate_grad) {
  const auto add = [&](DistributedOptimizer& side, int log2_scale, const GuardedBuffer& grad, TrajectoryHash& hash) {
    const Buffers update = by_id(side.exposed(Phase::update));
    const GuardedBuffer master = collector_.collect(update.at(BufferId::master).view);
    const GuardedBuffer exp_avg = collector_.collect(update.at(BufferId::exp_avg).view);
    const GuardedBuffer exp_avg_sq = collector_.collect(update.at(BufferId::exp_avg_sq).view);
    if (comms_.harness->rank() != 0) return;
    TrajectoryHash::Scalars s;
    s.step = step;
    s.scalars = read<StepScalars>(by_id(side.exposed(Phase::prepare)), BufferId::step_scalars);
    s.found_inf = side.skipped();
    s.grad_norm = read<double>(by_id(side.exposed(Phase::norm)), BufferId::grad_norm);
    s.clip_coef = read<float>(by_id(side.exposed(Phase::clip)), BufferId::clip_coef);
    s.log2_loss_scale = log2_scale;
    const TensorView param = by_id(side.exposed(Phase::gather)).at(BufferId::param_full).view;
    hash.add_step(s, experiment_.layout(), {grad.view(), master.view(), exp_avg.view(), exp_avg_sq.view(), param});
  };
  add(*reference_, scales.reference, reference_grad, reference_hash_);
  add(*candidate_, scales.candidate, candidate_grad, candidate_hash_);
}

}  // namespace zeroproof::verification
