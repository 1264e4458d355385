#include "cuda/optimizer/device/device_step.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/comm/exchange/step_ranks.hpp"
#include "cuda/device/runtime/memory.hpp"
#include "cuda/device/step/fold_nodes.hpp"
#include "cuda/enqueued_optimizer.hpp"
#include "cuda/optimizer/device/device_tables.hpp"
#include "cuda/optimizer/state/step_counts.hpp"

namespace zeroproof::cuda {
namespace {

device::StepRules rules_of(const OptimizerSetup& setup) {
  return {setup.hyper,       setup.scaler,         setup.on_nonfinite,
          setup.param_dtype, setup.param_rounding, setup.seed};
}

std::int64_t count_if(bool there, std::size_t count) {
  return there ? static_cast<std::int64_t>(count) : 0;
}

/// Clip groups whose norms are stored separately from StepFound: all of them, or none if there is
/// one.
std::int64_t num_groups_apart(const OptimizerSetup& setup) {
  const int count = setup.clip_groups.count();
  return count > 1 ? count : 0;
}

/// Tensors with a trust ratio: all of them, or none.
std::int64_t num_trusted(const OptimizerSetup& setup) {
  return count_if(traits_of(setup.hyper.rule).trust_ratio, setup.layout->tensors().size());
}

/// Clears the results of passes over G: sums, amax and found_inf.
constexpr std::int64_t found_bytes = offsetof(device::StepFound, digest);
static_assert(found_bytes == (device::num_norm_words + 2) * sizeof(std::uint64_t));

std::vector<std::unique_ptr<DeviceScales>> device_scales(const RankShard& shard,
                                                         const CommGroups& comm_groups) {
  std::vector<std::unique_ptr<DeviceScales>> scales;
  for (const RankShard& one : scaled_shards(shard))
    scales.push_back(std::make_unique<DeviceScales>(one, comm_groups));
  return scales;
}

}  // namespace

DeviceStep::DeviceStep(RankShard& shard, const CommGroups& comm_groups, bool fused)
    : shard_(shard),
      comm_groups_(comm_groups),
      fused_(fused),
      rules_(rules_of(shard.setup)),
      record_(device_space(), 1),
      input_(device_space(), 1),
      scalars_(device_space(), per_tensor() ? count_if(true, shard.setup.layout->tensors().size())
                                            : std::int64_t{shard.setup.groups.count()}),
      tensor_steps_(device_space(), count_if(per_tensor(), shard.setup.layout->tensors().size())),
      has_grad_(device_space(), count_if(per_tensor(), grad_words(shard.setup))),
      tensor_groups_(device_space(), std::max(tensor_steps_.count(), num_trusted(shard.setup))),
      schedule_(device_space(), max_schedule_rows * shard.setup.groups.count()),
      pieces_(device_space(), step_pieces(shard.setup, shard.ranges)),
      counted_(device_space(), counted_bits(shard.setup)),
      group_sums_(device_space(), num_groups_apart(shard.setup) * device::num_norm_words),
      group_amax_(device_space(), num_groups_apart(shard.setup)),
      group_largest_(device_space(), num_groups_apart(shard.setup)),
      group_norms_(device_space(), num_groups_apart(shard.setup)),
      group_coefs_(device_space(), num_groups_apart(shard.setup)),
      group_limits_(device_space(), group_limits(shard.setup)),
      trust_sums_(device_space(), num_trusted(shard.setup) * 2 * device::num_norm_words),
      trust_ratios_(device_space(), num_trusted(shard.setup)),
      aside_(device_space(), 1),
      inputs_(EnqueuedOptimizer::most_enqueued),
      grad_bits_(EnqueuedOptimizer::most_enqueued * has_grad_.count()),
      rows_(schedule_.count()),
      resident_pieces_(device_space(), resident_step_pieces(shard.setup, shard.split)),
      scales_(device_scales(shard, comm_groups)),
      stored_(shard.setup.state_formats.plain()
                  ? nullptr
                  : std::make_unique<DeviceState>(shard, comm_groups)) {
  for (const Piece& piece : shard.setup.layout->pieces(shard.ranges)) numel_ += piece.numel;
  std::vector<std::int64_t> groups;
  for (std::int64_t i = 0; i < tensor_groups_.count(); ++i)
    groups.push_back(shard.setup.groups.of(i));
  tensor_groups_.write(groups);
  const auto kept = [&](StateSlot slot) {
    return shard.state.kept(slot) && !stored_ ? shard.state[slot].as<float>().data() : nullptr;
  };
  memory_ = {
      .state = &record_.data()->state,  // only its addresses are used here
      .input = input_.data(),
      .found = &record_.data()->found,
      .groups_found = {group_sums_.data(), group_amax_.data(), group_largest_.data(),
                       group_norms_.data(), group_coefs_.data(), group_limits_.data(),
                       shard.setup.clip_groups.count()},
      .trust = {trust_sums_.data(), trust_ratios_.data()},
      .scalars = scalars_.data(),
      .tensor_steps = tensor_steps_.data(),
      .has_grad = has_grad_.data(),
      .tensor_groups = tensor_groups_.data(),
      .schedule = schedule_.data(),
      .pieces = pieces_.data(),
      .grad = shard.grad->as<float>().data(),
      .master = shard.master->dtype() == DType::fp32 ? shard.master->as<float>().data() : nullptr,
      .slots = per_slot(kept),
      .param = shard.params.shard().data,
      .num_sets = scalars_.count(),
      .num_groups = shard.setup.groups.count(),
      .num_tensors = tensor_groups_.count(),
      .num_pieces = pieces_.count()};
  if (shard.matrices != nullptr)
    matrices_ = std::make_unique<DeviceMatrices>(shard, comm_groups_, memory_);
  updated_ = shard.split == nullptr
                 ? std::vector{matrices_ ? matrices_->others() : memory_}
                 : resident_memory(memory_, resident_pieces_.data(), shard.setup, *shard.split);
}

void DeviceStep::take_counters(const FullState& state) {
  device::StepRecord record{};
  record.state = {static_cast<std::uint64_t>(state.applied_steps), state.scaler, 0};
  record_.write(record);
  tensor_steps_.write({state.tensor_steps.data(), static_cast<std::size_t>(tensor_steps_.count())});
  trust_ratios_.write(std::vector<float>(trust_ratios_.count(), 1.0F));
  if (matrices_) matrices_->reset();
  skipped_ = false;
  first_row_t_ = 0;
}

void DeviceStep::cast_loaded(const FullState& state) {
  for (const auto& scales : scales_) scales->load(state, memory_);
  if (!scales_.empty()) return;
  if (stored_ && stored_->master_is_bf16()) return stored_->copy_masters(memory_);
  enqueue_casts();
}

void DeviceStep::enqueue_casts() const {
  if (shard_.split == nullptr) return device::enqueue_cast(memory_, rules_);
  for (const device::StepMemory& memory : updated_) device::enqueue_cast(memory, rules_);
}

void DeviceStep::load(const FullState& state) {
  take_counters(state);
  cast_loaded(state);
}

void DeviceStep::load_stored(const FullState& state, const StateBlocks::Chosen& of_codes,
                             const StateBlocks::Change& read) {
  take_counters(state);
  stored_->load(of_codes, read, memory_, rules_);
  cast_loaded(state);
}

bool DeviceStep::alone() const { return data_ranks(shard_.setup) * tp_ranks(shard_.setup) == 1; }

void DeviceStep::decide(std::uint32_t parts) const {
  device::enqueue_decide(memory_, rules_, parts, false);
}

void DeviceStep::throw_if_halted(const device::StepState& state) const {
  ZP_CHECK((state.halt & device::halt_nonfinite) == 0, ErrorCode::nonfinite,
           "step " + std::to_string(state.applied_steps + 1) + " has a gradient that is not finite",
           "on_nonfinite = error stops the run, and no state has changed",
           "check the inputs of that step, lower the loss scale, or choose on_nonfinite = skip");
  ZP_CHECK(
      (state.halt & device::halt_scalars_refused) == 0, ErrorCode::invalid_argument,
      "step " + std::to_string(state.applied_steps + 1) + " with loss scale 2^" +
          std::to_string(state.scaler.log2_scale) + " leaves the ranges of R5",
      "the reciprocal of loss scale * divisor must be a normal fp32 number, and steps start at 1",
      "keep loss scale * divisor between 2^-126 and 2^126");
  ZP_CHECK((state.halt & device::halt_scalars_differ) == 0, ErrorCode::comm,
           "the step scalars of step " + std::to_string(state.applied_steps + 1) +
               " differ between ranks",
           "ranks with different scalars diverge silently",
           "start every rank with the same settings, state and step number");
  ZP_CHECK(state.halt == 0, ErrorCode::internal,
           "the device stopped in step " + std::to_string(state.applied_steps + 1) + " with halt " +
               std::to_string(state.halt),
           "its schedule table does not contain this step", "report this with the command line");
}

void DeviceStep::prepare(GradSource& leaves) {
  const std::int64_t t = applied_steps() + 1;
  enqueued_ = false;
  send_inputs(leaves, t, t, 0);
  begin_measurement(aside_.data());
  clear(memory_.found->found_inf);
  clear(memory_.found->skipped);
  decide(device::decide_scalars);
  throw_if_halted(record_.read().state);
  std::vector<StepScalars> scalars(scalars_.count());
  scalars_.read(scalars);
  require_same_scalars(shard_.setup, scalars);
}

/// After a phase that may have decided to skip or to stop.
void DeviceStep::read_record() {
  const device::StepRecord record = record_.read();
  throw_if_halted(record.state);
  store_record(record);
}

void DeviceStep::unscale() {
  if (num_measured_ > 0) {
    device_space().copy(memory_.found, measurement_, found_bytes);
  } else {
    clear_norms();
    fused_ ? device::enqueue_finite_norm(memory_, rules_) : device::enqueue_unscale(memory_);
  }
  all_reduce_step(&memory_.found->found_inf, 1, IntegerReduce::max);
  decide(device::decide_scaler);
  read_record();
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

void DeviceStep::run_part(const std::function<void()>& part) const {
  enqueued_&& run_update_ ? run_update_(part) : part();
}

void DeviceStep::add_trust_norms(Span<const TrustNorms> norms) {
  trust_elsewhere_.assign(norms.begin(), norms.end());
}

void DeviceStep::prepare_update() {
  if (matrices_) {
    matrices_->enqueue_momentum(rules_, fused_);
    matrices_->orthogonalise();
  }
  if (!has_trust_ratios()) return;
  if (trust_elsewhere_.empty()) {
    trust_sums_.fill(0);
  } else {
    static_assert(sizeof(TrustNorms) == 2 * device::num_norm_words * sizeof(std::uint64_t));
    device_space().from_host(
        trust_sums_.data(), trust_elsewhere_.data(),
        static_cast<std::int64_t>(trust_elsewhere_.size() * sizeof(TrustNorms)));
    trust_elsewhere_.clear();
  }
  run_part([this] { enqueue_own_trust_norms(); });
  enqueue_trust_exchange();
  device::enqueue_trust_ratios(memory_);
}

void DeviceStep::enqueue_own_trust_norms() const {
  if (stored_) return stored_->trust_norms(memory_, rules_, fused_);
  for (const device::StepMemory& memory : updated_)
    device::enqueue_trust_norms(memory, rules_, fused_);
}

void DeviceStep::update() {
  if (stored_) {
    run_part([this] {
      decide(device::decide_count);  // masters are rounded with the count that includes this step
      stored_->update(memory_, rules_, fused_);
      if (!stored_->joins()) stored_->finish(memory_);
    });
    if (!stored_->joins()) return;
    stored_->join();
    return run_part([this] { stored_->finish(memory_); });
  }
  if (fused_) return run_part([this] { enqueue_counted_update(); });
  for (const device::StepMemory& memory : updated_) device::enqueue_update(memory, rules_);
  if (matrices_) matrices_->enqueue_update(rules_, false);
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
  enqueue_casts();
}

// The step without host reads, and the data that the host sends to it.

/// Rows from first_t on. Steps that were enqueued earlier have read theirs by then.
void DeviceStep::enqueue_schedule(std::int64_t first_t) {
  const OptimizerSetup& setup = shard_.setup;
  constexpr std::int64_t last_t = std::numeric_limits<std::int64_t>::max();
  std::vector<device::ScheduleRow> rows;
  const auto add = [&](std::int64_t t) {
    for (int group = 0; group < setup.groups.count(); ++group) {
      const OptimizerHyper hyper =
          hyper_of(setup.groups, setup.hyper, group, t, setup.micro_batches);
      rows.push_back({hyper.lr, hyper.weight_decay});
    }
  };
  add(first_t);
  num_rows_ = 1;
  try {
    for (; num_rows_ < max_schedule_rows && first_t <= last_t - num_rows_; ++num_rows_)
      add(first_t + num_rows_);
  } catch (const Error&) {  // R20 is undefined from here on; so the table ends
  }
  rows.resize(schedule_.count());
  std::ranges::copy(rows, rows_.data());
  device::enqueue_to_device(schedule_.data(), rows_.data(), rows_.num_bytes());
  first_row_t_ = first_t;
  divisor_ = 0;  // it is copied together with the schedule
}

void DeviceStep::enqueue_inputs(GradSource& leaves, std::int64_t seen_t, std::int64_t latest_t,
                                std::int64_t slot) {
  enqueued_ = true;
  send_inputs(leaves, seen_t, latest_t, slot);
  begin_measurement(memory_.found);
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
    device::enqueue_to_device(has_grad_.data(), words,
                              count * static_cast<std::int64_t>(sizeof(*words)));
  }
  if (first_row_t_ == 0 || seen_t < first_row_t_ || latest_t - first_row_t_ >= num_rows_) {
    enqueue_schedule(seen_t);
  }
  if (divisor == divisor_) return;
  inputs_.data()[slot] = {divisor, first_row_t_, num_rows_};
  device::enqueue_to_device(input_.data(), inputs_.data() + slot, sizeof(device::StepInput));
  divisor_ = divisor;
}

void DeviceStep::enqueue_find() const {
  if (num_measured_ == 0) return device::enqueue_finite_norm(memory_, rules_, !alone());
  if (!alone()) decide(device::decide_scalars);
}

void DeviceStep::enqueue_integers() const {
  static_assert(offsetof(device::StepFound, not_digest) ==
                offsetof(device::StepFound, found_inf) + 16);
  all_reduce_step(&memory_.found->found_inf, 3, IntegerReduce::max);  // with digest and not_digest
  all_reduce_norm();
}

void DeviceStep::enqueue_decide_all(std::uint32_t parts) const {
  parts |= device::decide_scaler | device::decide_norm | device::decide_clip;
  device::enqueue_decide(memory_, rules_, alone() ? parts | device::decide_scalars : parts,
                         !alone());
}

void DeviceStep::enqueue_decision() const { enqueue_decide_all(0); }

bool DeviceStep::look_at_decision() {
  const device::StepRecord record = record_.read();
  store_record(record);
  return record.state.halt == 0 && !skipped();
}

/// The cast uses the count that includes this step.
void DeviceStep::enqueue_counted_update() const {
  decide(device::decide_count);
  enqueue_fused_updates();
}

void DeviceStep::enqueue_fused_updates() const {
  for (const device::StepMemory& memory : updated_) device::enqueue_fused_update(memory, rules_);
  if (matrices_) matrices_->enqueue_update(rules_, true);
}

void DeviceStep::enqueue_update() const {
  if (matrices_) {
    enqueue_momentum();
    matrices_->orthogonalise();
    return enqueue_decided_update();
  }
  if (has_trust_ratios()) {
    enqueue_trust_norms();
    enqueue_trust_exchange();
    return enqueue_scaled_update();
  }
  enqueue_decide_all(device::decide_count);
  enqueue_decided_update();
}

void DeviceStep::enqueue_trust_norms() const {
  enqueue_decide_all(device::decide_count);
  trust_sums_.fill(0);
  enqueue_own_trust_norms();
}

void DeviceStep::enqueue_trust_exchange() const {
  const Span<std::uint64_t> words(trust_sums_.data(),
                                  static_cast<std::size_t>(trust_sums_.count()));
  for (Communicator* const wire : counted_groups()) wire->all_reduce(words, IntegerReduce::sum);
}

void DeviceStep::enqueue_scaled_update() const {
  device::enqueue_trust_ratios(memory_);
  enqueue_decided_update();
}

void DeviceStep::enqueue_momentum() const {
  enqueue_decide_all(device::decide_count);
  matrices_->enqueue_momentum(rules_, true);
}

void DeviceStep::enqueue_decided_update() const {
  stored_ ? stored_->update(memory_, rules_, true) : enqueue_fused_updates();
  enqueue_collect();
}

void DeviceStep::enqueue_collect() const {
  for (const auto& scales : scales_) scales->collect(memory_);
}

void DeviceStep::enqueue_amax() const {
  if (stored_ && stored_->joins()) stored_->join();
  for (const auto& scales : scales_) scales->join();
}

void DeviceStep::enqueue_params() const {
  if (stored_) stored_->finish(memory_);
  for (const auto& scales : scales_) scales->make(memory_);
}

// Results of a rank from its G, computed while or after it is written, and their combination over
// ranks.

GradTarget DeviceStep::grad_target() {
  GradTarget target{shard_.grad->as<float>()};
  if (!fused_ || several_norms()) return target;
  target.epilogue.measurement = {memory_.state, memory_.input, measurement_, counted_.data(),
                                 rules_.hyper.norm};
  target.epilogue.num_measured = &num_measured_;
  return target;
}

void DeviceStep::end_sum(const std::optional<TensorView>&, const GradTarget&) {
  if (num_measured_ != numel_) discard_measurement();
}

void DeviceStep::begin_measurement(device::StepFound* found) {
  measurement_ = found;
  num_measured_ = 0;
  clear(*found);
}

StepDecision DeviceStep::decision() const {
  StepDecision decision;
  const auto read = [](const auto& from, auto& to) {
    to.resize(from.count());
    from.read(to);
  };
  read(scalars_, decision.scalars);
  read(has_grad_, decision.has_grad);
  read(tensor_steps_, decision.tensor_steps);
  read(trust_ratios_, decision.trust_ratio);
  const device::StepRecord record = record_.read();
  decision.applied_steps = record.state.applied_steps;
  decision.clip_coef = {record.found.clip_coef};
  if (several_norms()) read(group_coefs_, decision.clip_coef);
  return decision;
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

void DeviceStep::discard_measurement() {
  if (num_measured_ > 0) begin_measurement(measurement_);
}

void DeviceStep::all_reduce_step(std::uint64_t* words, std::size_t count, IntegerReduce op) const {
  for (Communicator* const wire : {comm_groups_.comm, comm_groups_.replicas, comm_groups_.tp}) {
    if (wire != nullptr && wire->world_size() > 1) wire->all_reduce({words, count}, op);
  }
}

void DeviceStep::all_reduce_norm() const {
  const bool largest = rules_.hyper.norm == NormForm::inf;
  const device::ClipGroupsFound& groups = memory_.groups_found;
  const auto count = static_cast<std::size_t>(groups.count);
  std::uint64_t* const sums = several_norms() ? groups.sums : memory_.found->sums;
  std::uint64_t* const amax = several_norms() ? groups.amax : &memory_.found->amax;
  const Span<std::uint64_t> words(largest ? amax : sums,
                                  largest ? count : count * device::num_norm_words);
  for (Communicator* const wire : counted_groups()) {
    wire->all_reduce(words, largest ? IntegerReduce::max : IntegerReduce::sum);
  }
}

std::vector<Communicator*> DeviceStep::counted_groups() const {
  // In stage 0 every rank has counted every element, and every instance has all of them.
  Communicator* const comm = shard_.setup.stage > 0 ? comm_groups_.comm : nullptr;
  std::vector<Communicator*> groups;
  for (Communicator* const wire : {comm, comm_groups_.tp}) {
    if (wire != nullptr && wire->world_size() > 1) groups.push_back(wire);
  }
  return groups;
}

bool DeviceStep::joins_trust() const { return has_trust_ratios() && !counted_groups().empty(); }

// The parts of a step on a device that other classes use.

namespace {

template <class T>
TensorView view_of(T* data, DType dtype, std::int64_t numel) {
  return {const_cast<std::remove_const_t<T>*>(data), dtype, numel};
}

}  // namespace

std::vector<const void*> DeviceStep::addresses() const {
  std::vector<const void*> all = {memory_.state,
                                  memory_.input,
                                  memory_.scalars,
                                  memory_.tensor_steps,
                                  memory_.has_grad,
                                  memory_.schedule,
                                  memory_.pieces,
                                  memory_.grad,
                                  memory_.master,
                                  memory_.param,
                                  num_measured_ > 0 ? memory_.found : nullptr,
                                  memory_.groups_found.sums,
                                  memory_.trust.sums,
                                  memory_.trust.ratios,
                                  memory_.matrices.orthogonal};
  all.insert(all.end(), memory_.slots.begin(), memory_.slots.end());
  return all;
}

/// An observer replaced the values. They determine whether the step is skipped.
void DeviceStep::overwritten(Phase phase) {
  if (phase == Phase::reduce) discard_measurement();
  if (phase != Phase::unscale) return;
  device::StepRecord record = record_.read();
  skipped_ = record.found.found_inf != 0 && rules_.on_nonfinite != OnNonfinite::propagate;
  record.found.skipped = skipped_ ? 1U : 0U;
  record_.write(record);
}

std::vector<ExposedBuffer> DeviceStep::exposed(Phase phase) {
  const auto sharded = [&](BufferId id, const GuardedBuffer& buffer) {
    return ExposedBuffer{id, buffer.view(), shard_.ranges};
  };
  const device::StepMemory& memory = memory_;
  std::vector<ExposedBuffer> buffers;
  switch (phase) {
    case Phase::prepare:
      return {{BufferId::step_scalars,
               view_of(memory.scalars, DType::u32, memory.num_sets * num_step_scalar_words),
               {}}};
    case Phase::reduce:
      return {sharded(BufferId::grad_sum, *shard_.grad)};
    case Phase::unscale:
      if (!fused_) buffers.push_back(sharded(BufferId::unscaled_grad, *shard_.grad));
      buffers.push_back(
          {BufferId::found_inf, view_of(&memory.found->found_inf, DType::u32, 1), {}});
      buffers.push_back({BufferId::loss_scaler,
                         view_of(&memory.state->scaler, DType::u32, sizeof(LossScalerState) / 4),
                         {}});
      return buffers;
    case Phase::norm: {
      const device::ClipGroupsFound& groups = memory.groups_found;
      std::uint64_t* const sums = several_norms() ? groups.sums : memory.found->sums;
      double* const norms = several_norms() ? groups.grad_norm : &memory.found->grad_norm;
      if (rules_.hyper.norm == NormForm::inf) {
        void* const amax =
            several_norms() ? static_cast<void*>(groups.largest) : &memory.found->amax;
        buffers.push_back({BufferId::grad_amax, {amax, DType::u32, groups.count}, {}});
      } else {
        buffers.push_back({BufferId::norm_limbs,
                           view_of(sums, DType::u64, groups.count * device::num_norm_words),
                           {}});
      }
      buffers.push_back({BufferId::grad_norm, view_of(norms, DType::fp64, groups.count), {}});
      return buffers;
    }
    case Phase::clip: {
      const device::ClipGroupsFound& groups = memory.groups_found;
      float* const coefs = several_norms() ? groups.clip_coef : &memory.found->clip_coef;
      buffers.push_back({BufferId::clip_coef, view_of(coefs, DType::fp32, groups.count), {}});
      if (!fused_) buffers.push_back(sharded(BufferId::grad, *shard_.grad));
      return buffers;
    }
    case Phase::update:
      buffers = shard_.state.exposed(shard_.ranges);
      buffers.push_back(sharded(BufferId::master, *shard_.master));
      buffers.push_back(
          {BufferId::applied_steps, view_of(&memory.state->applied_steps, DType::u64, 1), {}});
      if (per_tensor()) {
        buffers.push_back({BufferId::tensor_steps,
                           view_of(memory.tensor_steps, DType::u64, memory.num_tensors),
                           {}});
      }
      if (has_trust_ratios()) {
        buffers.push_back({BufferId::trust_ratio,
                           view_of(memory.trust.ratios, DType::fp32, memory.num_tensors),
                           {}});
      }
      if (matrices_) buffers.push_back(matrices_->exposed());
      return buffers;
    case Phase::cast:
    case Phase::gather:
      break;
  }
  return buffers;
}

}  // namespace zeroproof::cuda
