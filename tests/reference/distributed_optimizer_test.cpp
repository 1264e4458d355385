#include "tests/reference/distributed_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

constexpr int num_steps = 4;
constexpr std::int64_t overflow_step = 2;  // the second of the four

/// Differences of one rank against the dense optimizer, in words; doctest is asked on the main thread only.
class Comparison {
 public:
  Comparison(const FlatLayout& layout, DistributedOptimizer& optimizer)
      : layout_(layout), optimizer_(optimizer) {}

  /// Elements of a buffer against the dense one: tensors bit for bit, padding still NaN.
  void buffer(BufferId id, const TensorView& dense) {
    const ExposedBuffer mine = stored(optimizer_, id);
    std::vector<bool> is_padding(static_cast<std::size_t>(mine.view.numel), true);
    for (const Piece& piece : layout_.pieces(mine.ranges)) {
      for (std::int64_t i = 0; i < piece.numel; ++i) {
        is_padding[static_cast<std::size_t>(piece.local_begin + i)] = false;
        const std::uint32_t here = element_bits(mine.view, piece.local_begin + i);
        expect(here == element_bits(dense, piece.global_begin + i), id, piece.global_begin + i);
      }
    }
    const std::uint32_t nan = mine.view.dtype == DType::fp32 ? 0x7FFFFFFFU : 0x7FFFU;
    for (std::int64_t i = 0; i < mine.view.numel; ++i) {
      if (is_padding[static_cast<std::size_t>(i)]) expect(element_bits(mine.view, i) == nan, id, -1);
    }
  }

  void buffer(BufferId id, const std::vector<float>& dense) {
    buffer(id, TensorView{const_cast<float*>(dense.data()), DType::fp32,
                          static_cast<std::int64_t>(dense.size())});
  }

  template <class T>
  void scalar(BufferId id, const T& dense) {
    const T mine = read<T>(stored(optimizer_, id).view);
    if constexpr (std::is_floating_point_v<T>) {
      expect(bits(mine) == bits(dense), id, 0);
    } else {
      expect(std::memcmp(&mine, &dense, sizeof(T)) == 0, id, 0);
    }
  }

  void expect(bool equal, BufferId id, std::int64_t index) {
    if (equal || !text.empty()) return;
    text = std::string(name(id)) + " differs at global index " + std::to_string(index) + " (" +
           (index < 0 ? "padding" : layout_.coordinates(index)) + ")";
  }

  std::string text;  ///< the first difference

 private:
  const FlatLayout& layout_;
  DistributedOptimizer& optimizer_;
};

void compare(Comparison& comparison, const reference::DenseOptimizer& dense) {
  const reference::DenseStep& step = dense.last_step();
  comparison.scalar(BufferId::step_scalars, step.scalars);
  comparison.buffer(BufferId::grad_sum, step.grad_sum);
  comparison.buffer(BufferId::unscaled_grad, step.unscaled_grad);
  comparison.scalar(BufferId::found_inf, std::uint32_t{step.found_inf ? 1U : 0U});
  comparison.scalar(BufferId::loss_scaler, dense.loss_scaler());
  comparison.scalar(BufferId::grad_norm, step.grad_norm);
  comparison.scalar(BufferId::clip_coef, step.clip_coef);
  comparison.buffer(BufferId::grad, step.grad);
  comparison.buffer(BufferId::master, dense.master());
  comparison.buffer(BufferId::exp_avg, dense.exp_avg());
  comparison.buffer(BufferId::exp_avg_sq, dense.exp_avg_sq());
  comparison.scalar(BufferId::applied_steps, static_cast<std::uint64_t>(dense.applied_steps()));
  comparison.buffer(BufferId::param_shard, dense.param());
  comparison.buffer(BufferId::param_full, dense.param());
}

/// Copies of all leaves of a step, as the dense optimizer takes them.
struct AllLeaves {
  AllLeaves(RandomLeaves& source, std::int64_t micro_batches) {
    for (std::int64_t j = 0; j < micro_batches; ++j) {
      const TensorView view = source.leaf(j);
      bytes.emplace_back(static_cast<std::size_t>(view.num_bytes()));
      std::memcpy(bytes.back().data(), view.data, bytes.back().size());
      views.push_back({bytes.back().data(), view.dtype, view.numel});
    }
  }
  std::vector<std::vector<std::byte>> bytes;
  std::vector<TensorView> views;
};

OptimizerHyper usual_hyper() {
  OptimizerHyper hyper;
  hyper.lr = 0.05;
  hyper.weight_decay = 0.1;
  hyper.max_norm = 2.0;
  return hyper;
}

/// Four steps of both on one rank; "" if every buffer of every step agrees.
std::string run_rank(const Case& c, Communicator& comm) {
  const FlatLayout layout = odd_layout();
  const ShardMap shards(layout.padded_numel(), c.world_size, c.bucket_numel);
  const InitialState initial(layout);
  const reference::DenseSetup dense_setup{&layout, c.param_dtype, c.micro_batches, usual_hyper(),
                                          lively_scaler()};
  reference::DenseOptimizer dense(dense_setup, initial.view());

  OptimizerSetup setup;
  setup.layout = &layout;
  setup.shards = &shards;
  setup.comm = &comm;
  setup.stage = c.stage;
  setup.param_dtype = c.param_dtype;
  setup.leaf_dtype = c.leaf_dtype;
  setup.micro_batches = c.micro_batches;
  setup.hyper = usual_hyper();
  setup.scaler = lively_scaler();
  const std::unique_ptr<DistributedOptimizer> optimizer = reference::make_distributed_optimizer(setup);
  optimizer->load_state(initial.view());

  RandomLeaves leaves(layout, c.leaf_dtype);
  leaves.micro_batches = c.micro_batches;
  for (int step = 1; step <= num_steps; ++step) {
    leaves.step = step;
    leaves.overflow = step == overflow_step;
    leaves.log2_scale = dense.loss_scaler().log2_scale;
    const bool dense_applied = dense.step(AllLeaves(leaves, c.micro_batches).views);
    const bool applied = optimizer->step(leaves);
    Comparison comparison(layout, *optimizer);
    comparison.expect(applied == dense_applied && applied == (step != overflow_step), BufferId::found_inf, 0);
    compare(comparison, dense);
    if (!comparison.text.empty()) return "step " + std::to_string(step) + ": " + comparison.text;
  }
  return "";
}

void check_case(const Case& c) {
  std::vector<std::string> differences(static_cast<std::size_t>(c.world_size));
  ThreadWorld world(c.world_size);
  run_ranks(world, [&](Communicator& comm) {
    differences[static_cast<std::size_t>(comm.rank())] = run_rank(c, comm);
  });
  for (const std::string& difference : differences) {
    INFO(to_string(c));
    CHECK(difference == "");
  }
}

void check_stage(int stage) {
  constexpr std::array<std::array<DType, 2>, 4> dtypes = {{{DType::fp32, DType::bf16},
                                                           {DType::bf16, DType::fp32},
                                                           {DType::fp16, DType::fp16},
                                                           {DType::bf16, DType::bf16}}};
  std::size_t pair = 0;
  for (const int world_size : {1, 2, 3, 5, 8}) {  // 8 ranks for 7 chunks
    for (const std::int64_t bucket_numel : {1024, 4096, 1 << 20}) {
      for (const std::int64_t micro_batches : {1, 3, 8}) {
        for (int i = 0; i < 2; ++i) {
          const auto [leaf, param] = dtypes[pair++ % dtypes.size()];
          check_case({stage, world_size, bucket_numel, micro_batches, leaf, param});
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("distributed: stage 0 equals the dense optimizer") { check_stage(0); }
TEST_CASE("distributed: stage 1 equals the dense optimizer") { check_stage(1); }
TEST_CASE("distributed: stage 2 equals the dense optimizer") { check_stage(2); }
