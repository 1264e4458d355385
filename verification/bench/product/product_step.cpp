#include "verification/bench/product/product_step.hpp"

#include <chrono>
#include <cstring>

#include "verification/bench/measure/values.hpp"

namespace zeroproof::verification::bench {
namespace {

OptimizerSetup setup_of(const ProductCase& what, const FlatLayout& layout, const ShardMap& shards,
                        Communicator& comm) {
  OptimizerSetup setup;
  setup.layout = &layout;
  setup.shards = &shards;
  setup.comm = &comm;
  setup.stage = what.stage;
  setup.micro_batches = what.micro_batches;
  setup.grad_dtype = what.grad_dtype;
  setup.hyper = step_hyper(true);
  setup.scaler.kind = LossScalerKind::constant;
  setup.scaler.log2_initial = log2_loss_scale;
  setup.exec.num_threads = what.threads;
  setup.offload = what.offload;
  return setup;
}

const void* wanted_values(const ContractResult& wanted, BufferId id) {
  switch (id) {
    case BufferId::master:
      return wanted.master.data();
    case BufferId::exp_avg:
      return wanted.exp_avg.data();
    case BufferId::exp_avg_sq:
      return wanted.exp_avg_sq.data();
    case BufferId::param_shard:
    case BufferId::param_full:
      return wanted.param.data();
    default:
      return nullptr;
  }
}

}  // namespace

ProductStep::ProductStep(const ProductCase& what, const FlatLayout& layout, Leaves& leaves,
                         const FullState& first, Communicator& comm)
    : layout_(layout),
      leaves_(leaves),
      shards_(layout.padded_numel(), comm.world_size(), what.bucket_numel),
      setup_(setup_of(what, layout, shards_, comm)),
      optimizer_(cuda::make_distributed_optimizer(setup_, Space::host, true)) {
  optimizer_->load_state(first);
}

void ProductStep::step() {
  for (const Phase phase : all_phases) {
    if (skipped_on_overflow(phase) && optimizer_->skipped()) continue;
    const auto start = std::chrono::steady_clock::now();
    optimizer_->run_phase(phase, leaves_);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (phase == Phase::reduce) reduce_seconds_.push_back(elapsed.count());
  }
  ++steps_;
}

bool ProductStep::as_contract(const ContractResult& wanted) const {
  bool params = false;
  int states = 0;
  for (const ExposedBuffer& buffer : optimizer_->storage()) {
    const auto* values = static_cast<const std::byte*>(wanted_values(wanted, buffer.id));
    if (values == nullptr || buffer.view.numel == 0) continue;
    const std::int64_t width = num_bytes(buffer.view.dtype);
    for (const Piece& piece : layout_.pieces(buffer.ranges)) {
      const std::byte* got = static_cast<const std::byte*>(buffer.view.data) + piece.local_begin * width;
      if (std::memcmp(got, values + piece.global_begin * width,
                      static_cast<std::size_t>(piece.numel * width)) != 0)
        return false;
    }
    if (buffer.view.dtype == DType::bf16) {
      params = true;
    } else {
      ++states;
    }
  }
  return params && states == 3;
}

bool ProductStep::skips_infinity(const ContractResult& wanted) {
  leaves_.set_infinite(true);
  const bool applied = optimizer_->step(leaves_);
  leaves_.set_infinite(false);
  return !applied && as_contract(wanted);
}

}  // namespace zeroproof::verification::bench
