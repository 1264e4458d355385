#pragma once
// A small model, leaves that need no network, and both reference optimizers running side by side.

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include "common/comm/self.hpp"
#include "common/comm/threads.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "reference/buffers.hpp"
#include "reference/dense_optimizer.hpp"
#include "reference/distributed_optimizer.hpp"
#include "tests/reference/support.hpp"

namespace zeroproof::tests {

/// Seven chunks: an odd tensor, an empty one, two that end behind a chunk boundary, and a single number.
inline FlatLayout odd_layout() {
  return FlatLayout({{"a", {37}}, {"nothing", {0, 5}}, {"b", {3, 700}}, {"one", {}}, {"c", {1025}}});
}

/// What the optimizers may be told to do, apart from where it runs.
struct Settings {
  OptimizerHyper hyper;
  ParamGroups groups;
  LossReduction loss_reduction = LossReduction::mean;
  OnNonfinite on_nonfinite = OnNonfinite::skip;
  MissingGrad missing_grad = MissingGrad::zero;
  ParamRounding param_rounding = ParamRounding::nearest;
  GradSum grad_sum = GradSum::tree;
};

/// Who owns what: the contract's layout, or another one.
enum class MapKind {
  contract,
  stretches,  ///< 97 elements to each rank in turn; nobody owns padding
  tensors,    ///< whole tensors in turn, in reverse order
  last_rank   ///< everything to one rank
};

/// Everything a case varies.
struct Case {
  int stage = 1;
  int world_size = 1;
  std::int64_t bucket_numel = 1024;
  std::int64_t micro_batches = 1;
  DType leaf_dtype = DType::fp32;
  DType param_dtype = DType::bf16;
  MicroBatchOrder order = MicroBatchOrder::by_stage;
  std::int64_t persistent_numel = 0;
  MapKind map = MapKind::contract;
};

/// A map of odd_layout; those that are not the contract's have two buckets.
inline ShardMap map_of(const FlatLayout& layout, const Case& c) {
  if (c.map == MapKind::contract) return ShardMap(layout.padded_numel(), c.world_size, c.bucket_numel);
  const std::int64_t middle = layout.tensors()[3].begin;
  std::vector<Bucket> buckets;
  int turn = 0;
  for (const FlatRange& range : {FlatRange{0, middle}, FlatRange{middle, layout.padded_numel()}}) {
    Bucket bucket{range, std::vector<std::vector<FlatRange>>(static_cast<std::size_t>(c.world_size))};
    const auto give = [&](int rank, const FlatRange& part) {
      bucket.owned[static_cast<std::size_t>(rank)].push_back(part);
    };
    if (c.map == MapKind::last_rank) give(c.world_size - 1, range);
    for (const Piece& piece : layout.pieces({range})) {
      const std::int64_t end = piece.global_begin + piece.numel;
      if (c.map == MapKind::tensors)
        give(c.world_size - 1 - turn++ % c.world_size, {piece.global_begin, end});
      if (c.map != MapKind::stretches) continue;
      for (std::int64_t begin = piece.global_begin; begin < end; begin += 97) {
        give(turn++ % c.world_size, {begin, std::min(begin + 97, end)});
      }
    }
    buckets.push_back(std::move(bucket));
  }
  return ShardMap(layout.padded_numel(), c.world_size, std::move(buckets));
}

inline std::string to_string(const Case& c) {
  return "stage " + std::to_string(c.stage) + ", W " + std::to_string(c.world_size) + ", bucket " +
         std::to_string(c.bucket_numel) + ", M " + std::to_string(c.micro_batches) + ", leaf " +
         std::string(name(c.leaf_dtype)) + ", param " + std::string(name(c.param_dtype)) + ", " +
         std::string(name(c.order)) + ", persistent " + std::to_string(c.persistent_numel) + ", map " +
         std::to_string(static_cast<int>(c.map));
}

/// A scaler that has something to do within four steps: backs off after an overflow and grows after two good
/// steps.
inline LossScalerConfig lively_scaler() {
  LossScalerConfig scaler;
  scaler.kind = LossScalerKind::dynamic;
  scaler.log2_initial = 3;
  scaler.log2_growth = 2;
  scaler.growth_interval = 2;
  return scaler;
}

/// random_values, computed once for all ranks and cases of a test.
inline const std::vector<float>& shared_random_values(std::int64_t numel, std::uint64_t seed, int spread) {
  static std::mutex mutex;
  static std::map<std::tuple<std::int64_t, std::uint64_t, int>, std::vector<float>> known;
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<float>& values = known[{numel, seed, spread}];
  if (values.empty()) values = random_values(numel, seed, spread);
  return values;
}

/// Leaves that depend on (step, micro-batch, element) only; padding is NaN. With `gaps`, a tensor gets its
/// gradient from one micro-batch of a step alone, and from none in every third step.
class RandomLeaves final : public LeafSource {
 public:
  RandomLeaves(const FlatLayout& layout, DType dtype) : pieces_(layout.pieces({{0, layout.padded_numel()}})) {
    values_ = reference::nan_buffer(layout.padded_numel());
    buffer_ =
        reference::ParamBuffer(dtype, layout.padded_numel());  // casts and keeps padding NaN: also right here
  }

  std::int64_t step = 0;
  int log2_scale = 0;
  bool overflow = false;  ///< one element of the last micro-batch is infinite
  std::int64_t micro_batches = 1;
  bool gaps = false;

  std::int64_t num_tokens(std::int64_t micro_batch) const override {
    constexpr std::array<std::int64_t, 4> tokens = {1, 7, 2, 6};
    return tokens[static_cast<std::size_t>((micro_batch + step) % 4)];
  }

  bool has_grad(std::int64_t micro_batch, std::int64_t tensor) const override {
    return !gaps || ((step + tensor) % 3 != 0 && micro_batch == (step + tensor) % micro_batches);
  }

  TensorView leaf(std::int64_t micro_batch) override {
    const std::uint64_t seed = static_cast<std::uint64_t>(1000 * step + micro_batch);
    const std::vector<float>& random =
        shared_random_values(static_cast<std::int64_t>(values_.size()), seed, 6);
    for (const Piece& piece : pieces_) {
      for (std::int64_t i = piece.local_begin; i < piece.local_begin + piece.numel; ++i) {
        const std::size_t at = static_cast<std::size_t>(i);
        values_[at] = i % 11 == 3 ? -0.0F : std::ldexp(random[at], log2_scale);
        if (!has_grad(micro_batch, piece.tensor)) values_[at] = 0.0F;
      }
    }
    const Piece& last = pieces_.back();
    if (overflow && micro_batch == micro_batches - 1) {
      values_[static_cast<std::size_t>(last.local_begin + last.numel - 1)] = inf32;
    }
    buffer_.round_from(values_, pieces_);
    return buffer_.view();
  }

 private:
  std::vector<Piece> pieces_;
  std::vector<float> values_;
  reference::ParamBuffer buffer_;
};

/// Memory behind a FullState with everything a rule could ask for.
struct InitialState {
  explicit InitialState(const FlatLayout& layout)
      : master(shared_random_values(layout.padded_numel(), 71, 4)),
        exp_avg(shared_random_values(layout.padded_numel(), 72, 8)),
        exp_avg_sq(shared_random_values(layout.padded_numel(), 73, 8)),
        max_exp_avg_sq(shared_random_values(layout.padded_numel(), 74, 8)),
        momentum_buffer(shared_random_values(layout.padded_numel(), 75, 4)) {
    for (float& value : exp_avg_sq) value = std::abs(value);
    for (float& value : max_exp_avg_sq) value = std::abs(value);
    for (std::uint64_t tensor = 0; tensor < layout.tensors().size(); ++tensor)
      tensor_steps.push_back(tensor % 4);
    scaler.log2_scale = 3;
  }

  FullState view() const {
    return {master,          exp_avg,      exp_avg_sq,    max_exp_avg_sq,
            momentum_buffer, tensor_steps, applied_steps, scaler};
  }

  std::vector<float> master, exp_avg, exp_avg_sq, max_exp_avg_sq, momentum_buffer;
  std::vector<std::uint64_t> tensor_steps;
  std::int64_t applied_steps = 5;
  LossScalerState scaler;
};

/// Settings of both optimizers at once: DenseSetup and OptimizerSetup name them alike.
template <class Setup>
void apply(const Settings& settings, Setup& setup) {
  setup.hyper = settings.hyper;
  setup.groups = settings.groups;
  setup.loss_reduction = settings.loss_reduction;
  setup.on_nonfinite = settings.on_nonfinite;
  setup.missing_grad = settings.missing_grad;
  setup.param_rounding = settings.param_rounding;
  setup.grad_sum = settings.grad_sum;
  setup.seed = 0x123456789ABCDEFU;
  setup.scaler = lively_scaler();
}

/// Settings of where and how it runs, from a case.
inline void apply(const Case& c, OptimizerSetup& setup) {
  setup.stage = c.stage;
  setup.param_dtype = c.param_dtype;
  setup.leaf_dtype = c.leaf_dtype;
  setup.micro_batches = c.micro_batches;
  setup.order = c.order;
  setup.persistent_numel = c.persistent_numel;
}

/// A buffer by its id, as storage() lists it.
inline ExposedBuffer stored(DistributedOptimizer& optimizer, BufferId id) {
  for (const ExposedBuffer& buffer : optimizer.storage()) {
    if (buffer.id == id) return buffer;
  }
  return {id, {nullptr, DType::fp32, -1}, {}};
}

inline bool has(DistributedOptimizer& optimizer, BufferId id) {
  return stored(optimizer, id).view.numel >= 0;
}

/// One scalar out of a view.
template <class T>
T read(const TensorView& view) {
  T value;
  std::memcpy(&value, view.data, sizeof(T));
  return value;
}

template <class T>
void write(const TensorView& view, const T& value) {
  std::memcpy(view.data, &value, sizeof(T));
}

/// Bits of element i of a parameter or float buffer, NaN canonical.
inline std::uint32_t element_bits(const TensorView& view, std::int64_t i) {
  const std::size_t at = static_cast<std::size_t>(i);
  if (view.dtype == DType::fp32) return bits(static_cast<const float*>(view.data)[at]);
  const std::uint16_t value = view.dtype == DType::bf16 ? static_cast<const bf16*>(view.data)[at].bits
                                                        : static_cast<const fp16*>(view.data)[at].bits;
  const std::uint16_t infinity = view.dtype == DType::bf16 ? 0x7F80 : 0x7C00;
  return (value & 0x7FFFU) > infinity ? 0x7FFFU : value;
}

/// One rank alone, with everything it needs.
struct Alone {
  explicit Alone(int stage)
      : layout(odd_layout()),
        shards(layout.padded_numel(), 1, 2048),
        comm(make_self_communicator()),
        initial(layout),
        leaves(layout, DType::fp32) {
    setup.layout = &layout;
    setup.shards = &shards;
    setup.comm = comm.get();
    setup.stage = stage;
    setup.hyper.max_norm = 2.0;
    setup.scaler = lively_scaler();
    leaves.log2_scale = 3;
  }

  void make() {
    optimizer = reference::make_distributed_optimizer(setup);
    optimizer->load_state(initial.view());
  }
  void run(Phase phase) { optimizer->run_phase(phase, leaves); }
  void run_up_to(Phase last) {
    for (const Phase phase : all_phases) {
      if (phase <= last) run(phase);
    }
  }
  TensorView view(BufferId id) { return stored(*optimizer, id).view; }
  float value(BufferId id) { return read<float>(view(id)); }

  FlatLayout layout;
  ShardMap shards;
  std::unique_ptr<Communicator> comm;
  InitialState initial;
  RandomLeaves leaves;
  OptimizerSetup setup;
  std::unique_ptr<DistributedOptimizer> optimizer;
};

}  // namespace zeroproof::tests
