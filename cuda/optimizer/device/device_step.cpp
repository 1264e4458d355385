#include "cuda/optimizer/device/device_step.hpp"

#include <cstddef>
#include <string>

#include "common/base/error.hpp"
#include "cuda/enqueued_optimizer.hpp"
#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/comm/exchange/step_ranks.hpp"
#include "cuda/optimizer/device/device_tables.hpp"
#include "cuda/optimizer/state/step_counts.hpp"

namespace zeroproof::cuda {
namespace {

device::StepRules rules_of(const OptimizerSetup& setup) {
  return {setup.hyper, setup.scaler, setup.on_nonfinite, setup.param_dtype, setup.param_rounding, setup.seed};
}

std::int64_t count_if(bool there, std::size_t count) { return there ? static_cast<std::int64_t>(count) : 0; }

/// Clip groups whose norms lie apart from what else a step finds: all of them, or none if there is one.
std::int64_t num_groups_apart(const OptimizerSetup& setup) {
  const int count = setup.clip_groups.count();
  return count > 1 ? count : 0;
}

/// What passes over G find: sums, amax and found_inf.
constexpr std::int64_t found_bytes = offsetof(device::StepFound, digest);
static_assert(found_bytes == (device::num_norm_words + 2) * sizeof(std::uint64_t));

std::vector<std::unique_ptr<DeviceScales>> device_scales(const RankShard& shard, const Wires& wires) {
  std::vector<std::unique_ptr<DeviceScales>> scales;
  for (const RankShard& one : scaled_shards(shard))
    scales.push_back(std::make_unique<DeviceScales>(one, wires));
  return scales;
}

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
      schedule_(device_space(), max_schedule_rows * shard.setup.groups.count()),
      pieces_(device_space(), step_pieces(shard.setup, shard.ranges)),
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
      rows_(schedule_.count()),
      resident_pieces_(device_space(), resident_step_pieces(shard.setup, shard.split)),
      scales_(device_scales(shard, wires)),
      stored_(shard.setup.state_formats.plain() ? nullptr : std::make_unique<DeviceState>(shard, wires)) {
  for (const Piece& piece : shard.setup.layout->pieces(shard.ranges)) numel_ += piece.numel;
  std::vector<std::int64_t> groups;
  for (std::int64_t i = 0; i < tensor_groups_.count(); ++i) groups.push_back(shard.setup.groups.of(i));
  tensor_groups_.write(groups);
  const auto kept = [&](BufferId id) {
    const std::size_t i = index_of(id);
    return shard.state.kept(i) && !stored_ ? shard.state[i].as<float>().data() : nullptr;
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
      .master = shard.master->dtype() == DType::fp32 ? shard.master->as<float>().data() : nullptr,
      .exp_avg = kept(BufferId::exp_avg),
      .exp_avg_sq = kept(BufferId::exp_avg_sq),
      .max_exp_avg_sq = kept(BufferId::max_exp_avg_sq),
      .momentum_buffer = kept(BufferId::momentum_buffer),
      .param = shard.params.shard().data,
      .num_sets = scalars_.count(),
      .num_groups = shard.setup.groups.count(),
      .num_tensors = tensor_steps_.count(),
      .num_pieces = pieces_.count()};
  updated_ = shard.split == nullptr
                 ? std::vector{memory_}
                 : resident_memory(memory_, resident_pieces_.data(), shard.setup, *shard.split);
}

void DeviceStep::take_counters(const FullState& state) {
  device::StepRecord record{};
  record.state = {static_cast<std::uint64_t>(state.applied_steps), state.scaler, 0};
  record_.write(record);
  tensor_steps_.write({state.tensor_steps.data(), static_cast<std::size_t>(tensor_steps_.count())});
  skipped_ = false;
  first_row_t_ = 0;
}

void DeviceStep::cast_loaded(const FullState& state) {
  for (const auto& scales : scales_) scales->load(state, memory_);
  if (!scales_.empty()) return;
  if (stored_ && stored_->master_is_bf16()) return stored_->copy_masters(memory_);
  for (const device::StepMemory& memory : updated_) device::enqueue_cast(memory, rules_);
}

void DeviceStep::load(const FullState& state) {
  take_counters(state);
  cast_loaded(state);
}

void DeviceStep::load_stored(const FullState& state, const StateTiles::Chosen& of_codes,
                             const StateTiles::Change& read) {
  take_counters(state);
  stored_->load(of_codes, read, memory_, rules_);
  cast_loaded(state);
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

void DeviceStep::prepare(GradSource& leaves) {
  const std::int64_t t = applied_steps() + 1;
  enqueued_ = false;
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
  if (stored_) {
    const auto run = [this](const std::function<void()>& stretch) {
      enqueued_&& run_update_ ? run_update_(stretch) : stretch();
    };
    run([this] {
      decide(device::decide_count);  // draws of the masters belong to the step that is being counted
      stored_->update(memory_, rules_, fused_);
      if (!stored_->joins()) stored_->finish(memory_);
    });
    if (!stored_->joins()) return;
    stored_->join();
    return run([this] { stored_->finish(memory_); });
  }
  if (enqueued_ && run_update_) return run_update_([this] { enqueue_counted_update(); });
  if (fused_) return enqueue_counted_update();
  for (const device::StepMemory& memory : updated_) device::enqueue_update(memory, rules_);
  decide(device::decide_count);
}

void DeviceStep::cast() {
  if (!scales_.empty() && (!enqueued_ || run_update_)) {
    enqueue_collect();
    enqueue_amax();
    return enqueue_params();
  }
  if (fused_) return;
  if (stored_ && stored_->master_is_bf16()) return stored_->copy_masters(memory_);
  for (const device::StepMemory& memory : updated_) device::enqueue_cast(memory, rules_);
}

}  // namespace zeroproof::cuda
