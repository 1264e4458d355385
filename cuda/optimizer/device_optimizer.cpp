#include "cuda/optimizer/device_optimizer.hpp"

#include <exception>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/comm/exchange/micro_batches.hpp"

namespace zeroproof::cuda {
namespace {

/// Ranks of one machine enumerate its devices in the same order.
int local_rank(const OptimizerSetup& setup) {
  return own_data_rank(setup) * tp_ranks(setup) + tp_rank(setup);
}

}  // namespace

DeviceOptimizer::DeviceOptimizer(const OptimizerSetup& setup, bool fused, bool graphs,
                                 const Makers& makers)
    : stream_(local_rank(setup)), setup_(setup), fused_(fused), graphs_(graphs) {
  ZP_CHECK(fused || !graphs, ErrorCode::invalid_argument, "graphs need fused passes",
           "without them the host runs and checks every phase", "use fused passes");
  const Inside inside(*this);
  try {
    make(makers);
  } catch (...) {
    release();
    throw;
  }
}

DeviceOptimizer::~DeviceOptimizer() {
  const Inside inside(*this);
  release();
  device::name_step(-1);
}

void DeviceOptimizer::make(const Makers& makers) {
  comm_groups_ = std::make_unique<DeviceCommGroups>(setup_);
  watch_ = comm_groups_->watch();
  const CommGroups comm_groups = comm_groups_->comm_groups();
  const MakeLocalStep make_step = [&](RankShard& shard) {
    auto made = makers.step ? makers.step(shard, comm_groups)
                            : std::make_unique<DeviceStep>(shard, comm_groups, fused_);
    step_ = made.get();
    return made;
  };
  inner_ = makers.inner ? makers.inner(setup_, make_step, comm_groups)
                        : std::make_unique<ProductionOptimizer>(setup_, Space::device, host_ops(),
                                                                make_step, comm_groups);
  leaves_ = std::make_unique<StagedGrads>(inner_->ledger());
  ring_ = std::make_unique<StatusRing>();
  step_graphs_ = std::make_unique<StepGraphs>(graphs_, comm_groups);
  if (setup_.offload.on())
    step_->run_updates_with(
        [this](const std::function<void()>& stretch) { step_graphs_->run(stretch); });
}

/// Memory is freed in stream order, after all work that uses it: pinned memory too, although it
/// belongs to no stream. Destroying the comm_groups ends the work that waits for other ranks, and
/// the rest of the work ends then.
void DeviceOptimizer::release() {
  try {
    device_space().wait();
  } catch (const std::exception&) {  // already reported to the thread that waited for the step
    if (comm_groups_) comm_groups_->stop();
    static_cast<void>(wait_to_release());
  }
  step_graphs_.reset();
  ring_.reset();
  leaves_.reset();
  inner_.reset();
  comm_groups_.reset();
}

void DeviceOptimizer::load_state(const FullState& state) {
  const Inside inside(*this);
  ring_->clear();
  step_graphs_->clear();
  inner_->load_state(state);
  loaded_t_ = state.applied_steps;
  loaded_scaler_ = state.scaler;
  mirrors_.refill();
}

void DeviceOptimizer::load_state_from(const StateSource& source) {
  const Inside inside(*this);
  ring_->clear();
  step_graphs_->clear();
  inner_->load_state_from(source);
  loaded_t_ = source.applied_steps();
  loaded_scaler_ = source.scaler();
  mirrors_.refill();
}

void DeviceOptimizer::run_phase(Phase phase, GradSource& leaves) {
  const Inside inside(*this);
  mirrors_.send_back();
  try {
    inner_->run_phase(phase, leaves_->of(leaves));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::nonfinite) mirrors_.refill();  // the device goes on working
    throw;
  }
  mirrors_.refill();
}

std::vector<ExposedBuffer> DeviceOptimizer::mirrored(std::vector<ExposedBuffer> buffers) {
  std::vector<TensorView> views;
  for (const ExposedBuffer& buffer : buffers) views.push_back(buffer.view);
  const std::vector<TensorView> mirrors = mirrors_.of(views);
  for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].view = mirrors[i];
  return buffers;
}

std::vector<ExposedBuffer> DeviceOptimizer::exposed(Phase phase) {
  const Inside inside(*this);
  return mirrored(inner_->exposed(phase));
}

std::vector<ExposedBuffer> DeviceOptimizer::storage() {
  const Inside inside(*this);
  return mirrored(inner_->storage());
}

void DeviceOptimizer::overwritten(Phase phase) {
  const Inside inside(*this);
  mirrors_.send_back();
  inner_->overwritten(phase);
  mirrors_.refill();
}

std::string DeviceOptimizer::damaged_guard() const {
  const Inside inside(*this);
  return inner_->damaged_guard();
}

LossScalerState DeviceOptimizer::loss_scaler() const {
  const Inside inside(*this);
  mirrors_.send_back();
  return inner_->loss_scaler();
}

std::int64_t DeviceOptimizer::applied_steps() const {
  const Inside inside(*this);
  mirrors_.send_back();
  return inner_->applied_steps();
}

bool DeviceOptimizer::step(GradSource& leaves, StepObserver* observer) {
  if (!fused_ || observer != nullptr || (setup_.offload.on() && !graphs_))
    return DistributedOptimizer::step(leaves, observer);
  enqueue_step(leaves);
  return !wait().skipped;
}

void DeviceOptimizer::enqueue_step(GradSource& leaves) {
  ZP_CHECK(fused_, ErrorCode::invalid_argument, "enqueue_step() needs fused passes",
           "without them the host runs and checks every phase",
           "make the optimizer with fused passes, or run its phases");
  const Inside inside(*this);
  const DeviceCalls before = device::device_calls();
  device::name_step(ring_->pushed() + 1);
  mirrors_.send_back();
  ring_->poll();
  const bool alone = data_ranks(setup_) * tp_ranks(setup_) == 1;
  // Ranks check the status at different times, and a rank that stops early leaves the others
  // waiting: all continue to the same step.
  const bool due =
      alone || ring_->pushed() - ring_->halted_at().value_or(ring_->pushed()) >= most_enqueued;
  const std::int64_t seen_t = last(due).applied_steps;
  const std::int64_t under_way = ring_->pushed() - ring_->finished();
  step_->enqueue_inputs(leaves, seen_t + 1, seen_t + under_way + 1, ring_->slot());
  inner_->run_phase(Phase::reduce, leaves_->of(leaves));
  step_graphs_->begin(step_->addresses());
  const bool one_stretch = alone || comm_groups_->capturable();
  setup_.offload.on() ? enqueue_with_host(leaves, one_stretch) : enqueue_whole(leaves, one_stretch);
  ring_->push(step_->record());
  calls_ = device::device_calls() - before;
}

/// One section, or more, where ranks meet on the host in between: their copies cannot be captured.
void DeviceOptimizer::enqueue_whole(GradSource& leaves, bool one_stretch) {
  const bool alone = data_ranks(setup_) * tp_ranks(setup_) == 1;
  step_graphs_->run([&] {
    step_->enqueue_find();
    if (!one_stretch) return;
    if (!alone) step_->enqueue_integers();
    step_->enqueue_update();
    step_->enqueue_amax();
    step_->enqueue_params();
    inner_->run_phase(Phase::gather, leaves);
  });
  if (!one_stretch) {
    step_->enqueue_integers();
    if (step_->joins_trust()) {
      step_graphs_->run([&] { step_->enqueue_trust_norms(); });
      step_->enqueue_trust_exchange();
    }
    if (step_->joins_matrices()) enqueue_matrices();
    step_graphs_->run([&] {
      step_->joins_trust()      ? step_->enqueue_scaled_update()
      : step_->joins_matrices() ? step_->enqueue_decided_update()
                                : step_->enqueue_update();
      if (!step_->joins_amax()) step_->enqueue_params();
    });
    if (step_->joins_amax()) {
      step_->enqueue_amax();
      step_graphs_->run([&] { step_->enqueue_params(); });
    }
    inner_->run_phase(Phase::gather, leaves);
  }
  inner_->run_phase(Phase::cast, leaves);  // was part of the update, and is counted on the host
}

/// Newton-Schulz of every batch of matrices between two meetings of the ranks.
void DeviceOptimizer::enqueue_matrices() {
  step_graphs_->run([&] { step_->enqueue_momentum(); });
  DeviceMatrices& matrices = step_->matrices();
  for (std::int64_t batch = 0; batch < matrices.num_batches(); ++batch) {
    matrices.gather(batch);
    step_graphs_->run([&] { matrices.enqueue_newton_schulz(batch); });
    matrices.scatter();
  }
}

/// Three sections, or four: first the decision of the step; then the host waits for it and updates
/// its elements while the device updates the others; finally the parameters. If one rank skips or
/// stops, all do.
void DeviceOptimizer::enqueue_with_host(GradSource& leaves, bool one_stretch) {
  const bool alone = data_ranks(setup_) * tp_ranks(setup_) == 1;
  step_graphs_->run([&] {
    step_->enqueue_find();
    if (!one_stretch) return;
    if (!alone) step_->enqueue_integers();
    step_->enqueue_decision();
  });
  if (!one_stretch) {
    step_->enqueue_integers();
    step_graphs_->run([&] { step_->enqueue_decision(); });
  }
  if (!step_->look_at_decision()) return;
  inner_->run_phase(Phase::update, leaves);
  inner_->run_phase(Phase::cast, leaves);
  if (!one_stretch) return inner_->run_phase(Phase::gather, leaves);
  step_graphs_->run([&] { inner_->run_phase(Phase::gather, leaves); });
}

StepStatus DeviceOptimizer::last(bool due) {
  if (ring_->finished() == 0) {
    StepStatus nothing;
    nothing.applied_steps = loaded_t_;
    nothing.scaler = loaded_scaler_;
    return nothing;
  }
  const device::StepRecord& record = ring_->last();
  if (due) step_->throw_if_halted(record.state);
  step_->store_record(record);
  return {ring_->finished(),           static_cast<std::int64_t>(record.state.applied_steps),
          record.found.found_inf != 0, record.found.skipped != 0,
          record.found.grad_norm,      record.found.clip_coef,
          record.state.scaler};
}

StepStatus DeviceOptimizer::status() {
  const Inside inside(*this);
  ring_->poll();
  return last();
}

StepStatus DeviceOptimizer::wait() {
  const Inside inside(*this);
  ring_->wait();
  mirrors_.refill();
  return last();
}

}  // namespace zeroproof::cuda
