#include "cuda/zero/device_step.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>

#include "common/base/error.hpp"
#include "cuda/device/runtime/memory.hpp"
#include "cuda/device/step/fold_look.hpp"
#include "cuda/enqueued_optimizer.hpp"
#include "cuda/exchange/micro_batches.hpp"
#include "cuda/exchange/step_ranks.hpp"
#include "cuda/zero/step_counts.hpp"

namespace zeroproof::cuda {
namespace {

/// Steps that one schedule table serves.
constexpr std::int64_t schedule_rows = 1024;
static_assert(schedule_rows > 2 * EnqueuedOptimizer::most_enqueued);

device::StepRules rules_of(const OptimizerSetup& setup) {
  return {setup.hyper, setup.scaler, setup.on_nonfinite, setup.param_dtype, setup.param_rounding, setup.seed};
}

/// Where the elements of a tensor stand in the undistributed model.
TensorPlacement placement_of(const OptimizerSetup& setup, std::int64_t tensor) {
  const auto at = static_cast<std::size_t>(tensor);
  if (!setup.placement.empty()) return setup.placement[at];
  const TensorSlot& slot = setup.layout->tensors()[at];
  return {true, slot.begin, std::max<std::int64_t>(slot.numel, 1), std::max<std::int64_t>(slot.numel, 1)};
}

std::vector<device::StepPiece> pieces_of(const OptimizerSetup& setup, const std::vector<FlatRange>& ranges) {
  constexpr std::int64_t most = device::StepPiece::most_numel;
  std::vector<device::StepPiece> pieces;
  for (const Piece& whole : setup.layout->pieces(ranges)) {
    const TensorPlacement place = placement_of(setup, whole.tensor);
    const bool counted = tp_rank(setup) == 0 || !tp_replicated(setup, whole.tensor);
    for (std::int64_t begin = 0; begin < whole.numel; begin += most) {
      const Piece piece = whole.part(begin, most);
      pieces.push_back({piece.local_begin, piece.numel, piece.tensor, piece.tensor_begin,
                        setup.groups.of(piece.tensor), counted ? 1 : 0, place.begin, place.row_numel,
                        place.row_stride, setup.clip_groups.of(piece.tensor)});
    }
  }
  return pieces;
}

/// One bit per tensor; none if all count (R12).
std::vector<std::uint64_t> counted_bits(const OptimizerSetup& setup) {
  if (tp_rank(setup) == 0) return {};
  const std::size_t count = setup.layout->tensors().size();
  std::vector<std::uint64_t> bits((count + 63) / 64);
  for (std::size_t i = 0; i < count; ++i) {
    const bool counts = !tp_replicated(setup, static_cast<std::int64_t>(i));
    bits[i / 64] |= std::uint64_t{counts} << (i % 64);
  }
  return bits;
}

/// max_norm of every clip group, 0 for none; empty if there is one group.
std::vector<double> group_limits(const OptimizerSetup& setup) {
  std::vector<double> limits;
  if (setup.clip_groups.count() == 1) return limits;
  for (const std::optional<double>& limit : max_norms_of(setup.clip_groups, setup.hyper.max_norm)) {
    limits.push_back(limit.value_or(0.0));
  }
  return limits;
}

std::int64_t count_if(bool there, std::size_t count) { return there ? static_cast<std::int64_t>(count) : 0; }

/// Clip groups whose norms lie apart from what else a step finds: all of them, or none if there is one.
std::int64_t num_groups_apart(const OptimizerSetup& setup) {
  const int count = setup.clip_groups.count();
  return count > 1 ? count : 0;
}

/// Only its address is used here.
template <class T>
void clear(T& in_device_memory) {
  device_space().fill(&in_device_memory, 0, sizeof(T));
}

/// What passes over G find: sums, amax and found_inf.
constexpr std::int64_t found_bytes = offsetof(device::StepFound, digest);
static_assert(found_bytes == (device::num_norm_words + 2) * sizeof(std::uint64_t));

}  // namespace

DeviceStep::DeviceStep(RankShard& shard, const Wires& wires, bool fused)
    : shard_(shard),
      wires_(wires),
      fused_(fused),
      rules_(rules_of(shard.setup)),
      record_(device_space(), 1),
      input_(device_space(), 1),
      scalars_(device_space(), per_tensor() ? count_if(true, shard.setup.layout->tensors().size())
                                            : std::int64_t{shard.setup.groups.count()}),
      tensor_steps_(device_space(), count_if(per_tensor(), shard.setup.layout->tensors().size())),
      has_grad_(device_space(), count_if(per_tensor(), grad_words(shard.setup))),
      tensor_groups_(device_space(), count_if(per_tensor(), shard.setup.layout->tensors().size())),
      schedule_(device_space(), schedule_rows * shard.setup.groups.count()),
      pieces_(device_space(), pieces_of(shard.setup, shard.ranges)),
      counted_(device_space(), counted_bits(shard.setup)),
      group_sums_(device_space(), num_groups_apart(shard.setup) * device::num_norm_words),
      group_amax_(device_space(), num_groups_apart(shard.setup)),
      group_largest_(device_space(), num_groups_apart(shard.setup)),
      group_norms_(device_space(), num_groups_apart(shard.setup)),
      group_coefs_(device_space(), num_groups_apart(shard.setup)),
      group_limits_(device_space(), group_limits(shard.setup)),
      aside_(device_space(), 1),
      inputs_(EnqueuedOptimizer::most_enqueued),
      grad_bits_(EnqueuedOptimizer::most_enqueued * has_grad_.count()),
      rows_(schedule_.count()) {
  for (const Piece& piece : shard.setup.layout->pieces(shard.ranges)) numel_ += piece.numel;
  std::vector<std::int64_t> groups;
  for (std::int64_t i = 0; i < tensor_groups_.count(); ++i) groups.push_back(shard.setup.groups.of(i));
  tensor_groups_.write(groups);
  const auto kept = [&](BufferId id) {
    const std::size_t i = index_of(id);
    return shard.state.kept(i) ? shard.state[i].as<float>().data() : nullptr;
  };
  memory_ = {
      .state = &record_.data()->state,  // of which only the addresses are used here
      .input = input_.data(),
      .found = &record_.data()->found,
      .groups_found = {group_sums_.data(), group_amax_.data(), group_largest_.data(), group_norms_.data(),
                       group_coefs_.data(), group_limits_.data(), shard.setup.clip_groups.count()},
      .scalars = scalars_.data(),
      .tensor_steps = tensor_steps_.data(),
      .has_grad = has_grad_.data(),
      .tensor_groups = tensor_groups_.data(),
      .schedule = schedule_.data(),
      .pieces = pieces_.data(),
      .grad = shard.grad->as<float>().data(),
      .master = shard.master->as<float>().data(),
      .exp_avg = kept(BufferId::exp_avg),
      .exp_avg_sq = kept(BufferId::exp_avg_sq),
      .max_exp_avg_sq = kept(BufferId::max_exp_avg_sq),
      .momentum_buffer = kept(BufferId::momentum_buffer),
      .param = shard.params.shard().data,
      .num_sets = scalars_.count(),
      .num_groups = shard.setup.groups.count(),
      .num_tensors = tensor_steps_.count(),
      .num_pieces = pieces_.count()};
}

/// Rows from first_t on. Steps that were enqueued before have read theirs by then.
void DeviceStep::enqueue_schedule(std::int64_t first_t) {
  const OptimizerSetup& setup = shard_.setup;
  constexpr std::int64_t last_t = std::numeric_limits<std::int64_t>::max();
  std::vector<device::ScheduleRow> rows;
  const auto add = [&](std::int64_t t) {
    for (int group = 0; group < setup.groups.count(); ++group) {
      const OptimizerHyper hyper = hyper_of(setup.groups, setup.hyper, group, t, setup.micro_batches);
      rows.push_back({hyper.lr, hyper.weight_decay});
    }
  };
  add(first_t);
  num_rows_ = 1;
  try {
    for (; num_rows_ < schedule_rows && first_t <= last_t - num_rows_; ++num_rows_) add(first_t + num_rows_);
  } catch (const Error&) {  // R20 ends there; so does the table
  }
  rows.resize(static_cast<std::size_t>(schedule_.count()));
  std::ranges::copy(rows, rows_.data());
  device::enqueue_to_device(schedule_.data(), rows_.data(), rows_.num_bytes());
  first_row_t_ = first_t;
  divisor_ = 0;  // what is written with it
}

void DeviceStep::load(const FullState& state) {
  device::StepRecord record{};
  record.state = {static_cast<std::uint64_t>(state.applied_steps), state.scaler, 0};
  record_.write(record);
  tensor_steps_.write({state.tensor_steps.data(), static_cast<std::size_t>(tensor_steps_.count())});
  skipped_ = false;
  first_row_t_ = 0;
  device::enqueue_cast(memory_, rules_);
}

bool DeviceStep::alone() const { return data_ranks(shard_.setup) * tp_ranks(shard_.setup) == 1; }

void DeviceStep::decide(std::uint32_t parts) const { device::enqueue_decide(memory_, rules_, parts, false); }

void DeviceStep::throw_if_halted(const device::StepState& state) const {
  ZP_CHECK((state.halt & device::halt_nonfinite) == 0, ErrorCode::nonfinite,
           "step " + std::to_string(state.applied_steps + 1) + " has a gradient that is not finite",
           "the run was told to stop then (on_nonfinite = error), and no state has changed",
           "look at the inputs of that step, lower the loss scale, or choose on_nonfinite = skip");
  ZP_CHECK((state.halt & device::halt_scalars_refused) == 0, ErrorCode::invalid_argument,
           "step " + std::to_string(state.applied_steps + 1) + " with loss scale 2^" +
               std::to_string(state.scaler.log2_scale) + " leaves the ranges of R5",
           "the reciprocal of loss scale * divisor must be a normal fp32 number, and steps count from 1",
           "keep loss scale * divisor between 2^-126 and 2^126");
  ZP_CHECK((state.halt & device::halt_scalars_differ) == 0, ErrorCode::comm,
           "the step scalars of step " + std::to_string(state.applied_steps + 1) + " differ between ranks",
           "ranks that scale the same step differently drift apart without a sign",
           "start every rank with the same settings, state and step number");
  ZP_CHECK(state.halt == 0, ErrorCode::internal,
           "the device stopped in step " + std::to_string(state.applied_steps + 1) + " with halt " +
               std::to_string(state.halt),
           "its schedule table is not that of this step", "report this with the command line");
}

void DeviceStep::enqueue_inputs(GradSource& leaves, std::int64_t seen_t, std::int64_t latest_t,
                                std::int64_t slot) {
  send_inputs(leaves, seen_t, latest_t, slot);
  begin_look(memory_.found);
  if (several_norms()) clear_norms();
}

void DeviceStep::send_inputs(GradSource& leaves, std::int64_t seen_t, std::int64_t latest_t,
                             std::int64_t slot) {
  const OptimizerSetup& setup = shard_.setup;
  skipped_ = false;
  const std::int64_t divisor = step_divisor(setup, leaves);
  if (per_tensor()) {
    const std::int64_t count = has_grad_.count();
    std::uint64_t* const words = grad_bits_.data() + slot * count;
    find_gradients(setup, leaves, {words, static_cast<std::size_t>(count)});
    device::enqueue_to_device(has_grad_.data(), words, count * static_cast<std::int64_t>(sizeof(*words)));
  }
  if (first_row_t_ == 0 || seen_t < first_row_t_ || latest_t - first_row_t_ >= num_rows_) {
    enqueue_schedule(seen_t);
  }
  if (divisor == divisor_) return;
  inputs_.data()[slot] = {divisor, first_row_t_, num_rows_};
  device::enqueue_to_device(input_.data(), inputs_.data() + slot, sizeof(device::StepInput));
  divisor_ = divisor;
}

void DeviceStep::prepare(GradSource& leaves) {
  const std::int64_t t = applied_steps() + 1;
  send_inputs(leaves, t, t, 0);
  begin_look(aside_.data());
  clear(memory_.found->found_inf);
  clear(memory_.found->skipped);
  decide(device::decide_scalars);
  throw_if_halted(record_.read().state);
  std::vector<StepScalars> scalars(static_cast<std::size_t>(scalars_.count()));
  scalars_.read(scalars);
  require_same_scalars(shard_.setup, scalars);
}

GradTarget DeviceStep::grad_target() {
  GradTarget target{shard_.grad->as<float>()};
  if (!fused_ || several_norms()) return target;
  target.see.enqueue = [this](const host::PieceLoop& loop, const host::FoldPlan& plan,
                              Span<const NodeValues> operands, const NodeValues& sum) {
    seen_ += device_space().fold_look(
        loop, plan, operands, sum, {memory_.state, memory_.input, look_, counted_.data(), rules_.hyper.norm});
  };
  return target;
}

void DeviceStep::end_sum(const std::optional<TensorView>&, const GradTarget&) {
  if (seen_ != numel_) forget_look();
}

void DeviceStep::begin_look(device::StepFound* found) {
  look_ = found;
  seen_ = 0;
  clear(*found);
}

void DeviceStep::clear_norms() const {
  if (several_norms()) {
    group_sums_.fill(0);
    group_amax_.fill(0);
  } else {
    clear(memory_.found->sums);
    clear(memory_.found->amax);
  }
}

void DeviceStep::forget_look() {
  if (seen_ > 0) begin_look(look_);
}

void DeviceStep::enqueue_find() const {
  if (seen_ == 0) return device::enqueue_finite_norm(memory_, rules_, !alone());
  if (!alone()) decide(device::decide_scalars);
}

void DeviceStep::enqueue_integers() const {
  static_assert(offsetof(device::StepFound, not_digest) == offsetof(device::StepFound, found_inf) + 16);
  all_reduce_step(&memory_.found->found_inf, 3, IntegerReduce::max);  // with digest and not_digest
  all_reduce_norm();
}

void DeviceStep::enqueue_update() const {
  constexpr std::uint32_t rest =
      device::decide_scaler | device::decide_norm | device::decide_clip | device::decide_count;
  device::enqueue_decide(memory_, rules_, alone() ? rest | device::decide_scalars : rest, !alone());
  device::enqueue_fused_update(memory_, rules_);
}

void DeviceStep::all_reduce_step(std::uint64_t* words, std::size_t count, IntegerReduce op) const {
  for (Communicator* const wire : {wires_.comm, wires_.replicas, wires_.tp}) {
    if (wire != nullptr && wire->world_size() > 1) wire->all_reduce({words, count}, op);
  }
}

void DeviceStep::all_reduce_norm() const {
  // In stage 0 every rank has counted every element, and every instance has all of them.
  Communicator* const comm = shard_.setup.stage > 0 ? wires_.comm : nullptr;
  const bool largest = rules_.hyper.norm == NormForm::inf;
  const device::ClipGroupsFound& groups = memory_.groups_found;
  const auto count = static_cast<std::size_t>(groups.count);
  std::uint64_t* const sums = several_norms() ? groups.sums : memory_.found->sums;
  std::uint64_t* const amax = several_norms() ? groups.amax : &memory_.found->amax;
  const Span<std::uint64_t> words(largest ? amax : sums, largest ? count : count * device::num_norm_words);
  for (Communicator* const wire : {comm, wires_.tp}) {
    if (wire != nullptr && wire->world_size() > 1) {
      wire->all_reduce(words, largest ? IntegerReduce::max : IntegerReduce::sum);
    }
  }
}

/// After a phase that may have decided to skip or to stop.
void DeviceStep::look() {
  const device::StepRecord record = record_.read();
  throw_if_halted(record.state);
  looked(record);
}

void DeviceStep::unscale() {
  if (seen_ > 0) {
    device_space().copy(memory_.found, look_, found_bytes);
  } else {
    clear_norms();
    fused_ ? device::enqueue_finite_norm(memory_, rules_) : device::enqueue_unscale(memory_);
  }
  all_reduce_step(&memory_.found->found_inf, 1, IntegerReduce::max);
  decide(device::decide_scaler);
  look();
}

void DeviceStep::norm() {
  if (!fused_) device::enqueue_norm(memory_, rules_);
  all_reduce_norm();
  decide(device::decide_norm);
}

void DeviceStep::clip() {
  decide(device::decide_clip);
  if (!fused_) device::enqueue_clip(memory_, rules_);
}

void DeviceStep::update() {
  if (fused_) {
    decide(device::decide_count);  // draws of the cast belong to the step that is being counted
    return device::enqueue_fused_update(memory_, rules_);
  }
  device::enqueue_update(memory_, rules_);
  decide(device::decide_count);
}

void DeviceStep::cast() {
  if (!fused_) device::enqueue_cast(memory_, rules_);
}

}  // namespace zeroproof::cuda
