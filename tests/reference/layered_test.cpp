// Sources that run layer by layer: the same bits, with whole parameters or with one unit at a time.

#include "reference/unit_params.hpp"
#include "tests/reference/layered_support.hpp"
#include "tests/reference/pair_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// The sharded optimizer over a layered source next to the dense one over whole leaves, on one rank.
class LayeredPair {
 public:
  LayeredPair(const Case& c, const Settings& settings, Communicator& comm)
      : c_(c),
        settings_(settings),
        layout_(odd_layout()),
        shards_(map_of(layout_, c)),
        model_(layout_, c.param_dtype, c.leaf_dtype),
        dense_model_(layout_, c.param_dtype, c.leaf_dtype) {
    const InitialState initial(layout_);
    dense_setup_.layout = &layout_;
    dense_setup_.param_dtype = c.param_dtype;
    dense_setup_.micro_batches = c.micro_batches;
    apply(settings, dense_setup_);
    dense_ = std::make_unique<reference::DenseOptimizer>(dense_setup_, initial.view());
    setup_.layout = &layout_;
    setup_.shards = &shards_;
    setup_.comm = &comm;
    apply(c, setup_);
    apply(settings, setup_);
    optimizer_ = reference::make_distributed_optimizer(setup_);
    optimizer_->load_state(initial.view());
    model_.expect_released = c.stage == 3;
  }

  /// One step of both; what differs after it, or "".
  std::string step(std::int64_t step) {
    for (SyntheticModel* const model : {&model_, &dense_model_}) {
      model->step = step;
      model->micro_batches = c_.micro_batches;
      model->overflow = step == overflow_step;
      model->log2_scale = dense_->loss_scaler().log2_scale;
      model->num_passes = 0;
    }
    std::vector<GuardedBuffer> leaves;
    std::vector<TensorView> views;
    for (std::int64_t j = 0; j < c_.micro_batches; ++j) {
      leaves.push_back(whole_leaf(dense_model_, dense_->param(), c_.leaf_dtype, j));
      views.push_back(leaves.back().view());
    }
    LayeredSource source(model_);
    const bool dense_applied = dense_->step(views);
    const bool applied = optimizer_->step(source);
    Comparison comparison(layout_, *optimizer_);
    comparison.expect(applied == dense_applied && applied == (step != overflow_step), BufferId::found_inf, 0);
    compare(comparison, settings_.hyper, *dense_);
    if (!comparison.text.empty()) return "step " + std::to_string(step) + ": " + comparison.text;
    if (!dense_model_.problem.empty()) return "the test itself: " + dense_model_.problem;
    return model_.problem;
  }

  std::int64_t num_passes() const { return model_.num_passes; }

 private:
  Case c_;
  Settings settings_;
  FlatLayout layout_;
  ShardMap shards_;
  SyntheticModel model_, dense_model_;
  reference::DenseSetup dense_setup_;
  OptimizerSetup setup_;
  std::unique_ptr<reference::DenseOptimizer> dense_;
  std::unique_ptr<DistributedOptimizer> optimizer_;
};

void check_layered(const Case& c, const Settings& settings) {
  std::vector<std::string> problems(static_cast<std::size_t>(c.world_size));
  std::vector<std::int64_t> passes(problems.size());
  ThreadWorld world(c.world_size);
  run_ranks(world, [&](Communicator& comm) {
    LayeredPair pair(c, settings, comm);
    const auto rank = static_cast<std::size_t>(comm.rank());
    for (int step = 1; step <= num_steps && problems[rank].empty(); ++step) problems[rank] = pair.step(step);
    passes[rank] = pair.num_passes();
  });
  std::int64_t all_passes = 0;
  for (const std::int64_t count : passes) all_passes += count;
  INFO(to_string(c));
  CHECK(all_passes == c.micro_batches);  // each on one rank, and none for ranks without a micro-batch
  for (const std::string& problem : problems) CHECK(problem == "");
}

OptimizerSetup stage_3(const FlatLayout& layout, const ShardMap& shards, Communicator& comm) {
  OptimizerSetup setup;
  setup.layout = &layout;
  setup.shards = &shards;
  setup.comm = &comm;
  setup.stage = 3;
  return setup;
}

}  // namespace

TEST_CASE("layered: every stage, order and world equals the dense optimizer") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const MicroBatchOrder order : {MicroBatchOrder::contiguous, MicroBatchOrder::strided}) {
      for (const int world_size : {1, 2, 3, 5, 8}) {
        for (const std::int64_t micro_batches : {1, 3, 7}) {
          Case c{stage, world_size, 2048, micro_batches};
          c.order = order;
          check_layered(c, {usual_hyper(), {}});
        }
      }
    }
  }
}

TEST_CASE("layered: 16-bit gradients, other parameters, persistent tensors, bins") {
  for (const auto& [param, leaf] : {std::pair{DType::fp32, DType::bf16}, std::pair{DType::fp16, DType::fp16},
                                    std::pair{DType::bf16, DType::bf16}}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const std::int64_t persistent_numel : {0, 37, 1025, 1 << 20}) {
        Case c{stage, 3, 1024, 5, leaf, param};
        c.persistent_numel = persistent_numel;
        Settings settings{usual_hyper(), {}};
        settings.grad_sum = persistent_numel == 1025 ? GradSum::binned : GradSum::tree;
        check_layered(c, settings);
      }
    }
  }
}

TEST_CASE("layered: units whose elements are dealt out in any way") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const MapKind map : {MapKind::stretches, MapKind::tensors, MapKind::last_rank}) {
      for (const int world_size : {2, 5}) {
        Case c{stage, world_size, 1024, 3};
        c.map = map;
        c.persistent_numel = 37;
        Settings settings{usual_hyper(), {}};
        settings.hyper.norm = NormForm::exact;
        check_layered(c, settings);
      }
    }
  }
}

TEST_CASE("layered: a gathered unit is read only under the version it was gathered under") {
  reference::GatheredUnit unit(3, DType::fp32);
  CHECK(error_code_of([&] { unit.read(0); }) == ErrorCode::internal);  // nothing was gathered yet
  const TensorView memory = unit.open(7);
  const std::array<float, 3> values = {1, 2, 3};
  std::memcpy(memory.data, values.data(), sizeof(values));
  CHECK(read<std::array<float, 3>>(unit.read(7)) == values);
  CHECK(error_code_of([&] { unit.read(8); }) == ErrorCode::internal);
  CHECK(error_code_of([&] { unit.read(6); }) == ErrorCode::internal);
  unit.release();
  CHECK(error_code_of([&] { unit.read(7); }) == ErrorCode::internal);
  for (const float value : read<std::array<float, 3>>(memory)) CHECK(std::isnan(value));
}

TEST_CASE("layered: parameters that were cast after the gather are not read") {
  const FlatLayout layout = odd_layout();
  const ShardMap shards(layout.padded_numel(), 1, 1024);
  const auto comm = make_self_communicator();
  const OptimizerSetup setup = stage_3(layout, shards, *comm);
  GuardedBuffer shard(layout.padded_numel(), DType::bf16);
  std::uint64_t version = 1;
  reference::UnitParams params(setup, {{0, 1024}, {1024, 7168}}, {{shard.view(), {{0, 7168}}}, {}, &version});
  write(view_of(shard.view(), {1024, 1025}), bf16{0x4040});
  params.gather(1);
  CHECK(element_bits(params.view(1), 0) == 0x4040);
  version = 2;
  CHECK(error_code_of([&] { params.view(1); }) == ErrorCode::internal);
  params.gather(1);
  CHECK(element_bits(params.view(1), 0) == 0x4040);
  params.release(1);
  CHECK(error_code_of([&] { params.view(1); }) == ErrorCode::internal);
}

TEST_CASE("layered: a tap's parameters are what the layers see in stage 3") {
  // The shard of one rank is everything: an overwritten parameter must change the gradient of its element.
  Alone rank(3);
  SyntheticModel model(rank.layout, DType::bf16, DType::fp32);
  LayeredSource source(model);
  const auto gradient = [&](bool overwrite, BufferId id, std::int64_t persistent_numel) {
    rank.setup.persistent_numel = persistent_numel;
    rank.make();
    if (overwrite) write(rank.view(id), bf16{0x4040});
    rank.optimizer->run_phase(Phase::prepare, source);
    rank.optimizer->run_phase(Phase::reduce, source);
    return rank.value(BufferId::grad_sum);
  };
  CHECK(gradient(false, BufferId::param_shard, 0) == gradient(false, BufferId::param_shard, 37));
  CHECK(gradient(true, BufferId::param_shard, 0) != gradient(false, BufferId::param_shard, 0));
  // Element 0 is in tensor a, which 37 keeps whole: its shard is not read any more.
  CHECK(gradient(true, BufferId::param_shard, 37) == gradient(false, BufferId::param_shard, 0));
  CHECK(gradient(true, BufferId::param_full, 37) == gradient(true, BufferId::param_shard, 0));
}

TEST_CASE("layered: units that are none are refused") {
  for (int stage = 0; stage <= 3; ++stage) {
    const auto refuses = [&](std::vector<FlatRange> cut, std::vector<int> order) {
      Alone rank(stage);
      rank.make();
      SyntheticModel model(rank.layout, DType::bf16, DType::fp32);
      model.cut = std::move(cut);
      model.order = std::move(order);
      LayeredSource source(model);
      rank.optimizer->run_phase(Phase::prepare, source);
      ZP_CHECK_INVALID(rank.optimizer->run_phase(Phase::reduce, source));
    };
    refuses({{0, 1024}, {1024, 4096}}, {0, 1});  // tensors one and c are missing
    refuses({{0, 1024}, {2048, 7168}}, {0, 1});  // a gap
    refuses({{0, 2048}, {2048, 7168}}, {0, 1});  // cuts tensor b
    refuses({{0, 4096}, {1024, 7168}}, {0, 1});  // overlap
    refuses({{0, 1024}, {1024, 7168}}, {0});     // never visits the second
    refuses({{0, 1024}, {1024, 7168}}, {0, 2});  // there is no third
    refuses({{0, 1024}, {1024, 7168}}, {-1, 0, 1});
    refuses({{0, 8192}}, {0});  // ends behind the layout
  }
}

TEST_CASE("layered: stage 3 keeps nothing whole, or the persistent tensors alone") {
  const FlatLayout layout = odd_layout();
  const ShardMap shards(layout.padded_numel(), 1, 1024);
  const auto comm = make_self_communicator();
  const InitialState initial(layout);
  OptimizerSetup setup = stage_3(layout, shards, *comm);
  using Ranges = std::vector<FlatRange>;
  const auto kept = [&](std::int64_t persistent_numel) {
    setup.persistent_numel = persistent_numel;
    const auto optimizer = reference::make_distributed_optimizer(setup);
    optimizer->load_state(initial.view());
    const std::vector<ExposedBuffer> shown = optimizer->exposed(Phase::gather);
    CHECK(shown.empty() == !has(*optimizer, BufferId::param_full));
    return shown.empty() ? Ranges{} : shown[0].ranges;
  };
  CHECK(kept(0) == Ranges{});
  CHECK(kept(1) == Ranges{{4096, 4097}});
  CHECK(kept(36) == Ranges{{4096, 4097}});
  CHECK(kept(37) == Ranges{{0, 37}, {4096, 4097}});
  CHECK(kept(2100) == Ranges{{0, 37}, {1024, 3124}, {4096, 4097}, {5120, 6145}});
  setup.stage = 2;
  CHECK(kept(37) == Ranges{{0, 7168}});
}
