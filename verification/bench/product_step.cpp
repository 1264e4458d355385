#include "verification/bench/product_step.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>

#include "common/base/error.hpp"
#include "common/base/parallel_for.hpp"
#include "cuda/host/operations.hpp"
#include "verification/bench/machine.hpp"
#include "verification/bench/rows.hpp"
#include "verification/bench/values.hpp"

namespace zeroproof::verification::bench {
namespace {

OptimizerSetup setup_of(const ProductCase& what, const FlatLayout& layout, const ShardMap& shards,
                        Communicator& comm) {
  OptimizerSetup setup = step_setup(layout, shards, comm, what.stage);
  setup.micro_batches = what.micro_batches;
  setup.grad_dtype = what.grad_dtype;
  setup.exec.num_threads = what.threads;
  setup.offload = what.offload;
  setup.windows = what.windows;
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

/// Upper bound of the memory for measuring a case.
double needed_bytes(const ProductCase& what) {
  const std::int64_t each = (what.numel + what.tensors - 1) / what.tensors;
  const std::int64_t padded =
      what.tensors * ((each + layout_alignment - 1) / layout_alignment * layout_alignment);
  const double leaf = 4.0 * what.num_leaves();
  const double nodes = 4.0 * (2 + std::bit_width(static_cast<std::uint64_t>(what.micro_batches)));
  // The shards of all ranks are one state; every rank has nodes and whole parameters.
  const double product = 4 + 12 + 2 + what.ranks * (2 + nodes);
  const double yardsticks = 12 + 2 + 4, wanted = 12 + 2 + 4;
  const int products = what.offload.on() ? 2 : 1;  // the step without offload, measured beside it
  return padded * (leaf + products * product + yardsticks + wanted);
}

}  // namespace

std::string ProductCase::text() const {
  return "M = " + std::to_string(micro_batches) + ", " + std::to_string(tensors) +
         (tensors == 1 ? " tensor" : " tensors") + ", stage " + std::to_string(stage) + ", " +
         std::string(name(grad_dtype)) + " gradients" +
         (ranks == 1 ? "" : ", " + std::to_string(ranks) + " ranks") +
         (offload.on()
              ? ", " + std::string(name(offload.place)) + " has " + std::to_string(offload.fraction)
              : "");
}

FlatLayout layout_of(const ProductCase& what) {
  std::vector<ParamSpec> params;
  const std::int64_t each = what.numel / what.tensors;
  for (std::int64_t i = 0; i < what.tensors; ++i)
    params.push_back(
        {"weight" + std::to_string(i), {each + (i < what.numel % what.tensors ? 1 : 0)}});
  return FlatLayout(params);
}

void require_possible(const ProductCase& what) {
  ZP_CHECK(what.numel >= what.tensors, ErrorCode::invalid_argument,
           std::to_string(what.numel) + " parameters cannot be " + std::to_string(what.tensors) +
               " tensors",
           "a tensor has one element or more", "choose a larger --numel or fewer --tensors");
  require_memory(what.text() + " of " + std::to_string(what.numel) + " parameters",
                 needed_bytes(what), "--numel");
}

Leaves::Leaves(const ProductCase& what, std::int64_t padded_numel, const FlatRange& range)
    : first_(range.begin), threads_(what.threads) {
  const bool wide = what.grad_dtype == DType::fp32;
  for (std::int64_t i = 0; i < range.numel(); ++i) {
    views_.push_back({memory_.emplace_back(wide ? padded_numel : (padded_numel + 1) / 2).data(),
                      what.grad_dtype, padded_numel});
    fill(i);
  }
}

void Leaves::fill(std::size_t index) const {
  constexpr std::int64_t block = 16384;
  const TensorView& view = views_[index];
  parallel_for(threads_, (view.numel + block - 1) / block, [&](std::int64_t i) {
    const std::int64_t begin = i * block;
    const std::size_t count = std::min(block, view.numel - begin);
    if (view.dtype == DType::fp32)
      return fill_grad(first_ + index, begin, {static_cast<float*>(view.data) + begin, count});
    std::array<float, block> wide;
    const Span<float> values(wide.data(), count);
    fill_grad(first_ + index, begin, values);
    cuda::host::cast_to_bf16({}, values, {static_cast<bf16*>(view.data) + begin, count});
  });
}

TensorView Leaves::view(std::int64_t micro_batch) const {
  return views_[(micro_batch - first_) % views_.size()];
}

void Leaves::set_infinite(bool infinite) {
  const TensorView leaf = views_.front();
  const std::size_t width = num_bytes(leaf.dtype);
  const std::uint32_t infinity =
      leaf.dtype == DType::fp32 ? 0x7F800000U : 0x7F80U;  // little-endian
  if (infinite) std::memcpy(&finite_, leaf.data, width);
  std::memcpy(leaf.data, infinite ? &infinity : &finite_, width);
}

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
    const double seconds = seconds_of([&] { optimizer_->run_phase(phase, leaves_); });
    if (phase == Phase::reduce) reduce_seconds_.push_back(seconds);
  }
  ++steps_;
}

bool ProductStep::as_contract(const ContractResult& wanted) const {
  std::set<BufferId> states;
  bool params = false;
  for (const Phase phase : {Phase::update, Phase::cast, Phase::gather}) {
    for (const ExposedBuffer& buffer : optimizer_->exposed(phase)) {
      const auto* values = static_cast<const std::byte*>(wanted_values(wanted, buffer.id));
      if (values == nullptr || buffer.view.numel == 0) continue;
      const std::int64_t width = num_bytes(buffer.view.dtype);
      for (const Piece& piece : layout_.pieces(buffer.ranges)) {
        const std::byte* got =
            static_cast<const std::byte*>(buffer.view.data) + piece.local_begin * width;
        if (std::memcmp(got, values + piece.global_begin * width, piece.numel * width) != 0)
          return false;
      }
      if (buffer.view.dtype == DType::bf16) {
        params = true;
      } else {
        states.insert(buffer.id);
      }
    }
  }
  return params && states.size() == 3;
}

bool ProductStep::skips_infinity(const ContractResult& wanted) {
  leaves_.set_infinite(true);
  const bool applied = optimizer_->step(leaves_);
  leaves_.set_infinite(false);
  return !applied && as_contract(wanted);
}

}  // namespace zeroproof::verification::bench
