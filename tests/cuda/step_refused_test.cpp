// Setups that the production step refuses before anything runs.

#include "tests/cuda/step_world.hpp"

#include <doctest.h>

#include "common/comm/self.hpp"
#include "tests/cuda/expect_error.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

}  // namespace

TEST_CASE("setups that cannot be run are refused") {
  const FlatLayout& layout = odd_layout();
  const auto comm = make_self_communicator();
  const ShardMap shards(layout.padded_numel(), 1, 2048);
  OptimizerSetup good;
  good.layout = &layout;
  good.shards = &shards;
  good.comm = comm.get();
  CHECK_NOTHROW(cuda::make_distributed_optimizer(good));
  const auto refused = [&](const std::function<void(OptimizerSetup&)>& change) {
    OptimizerSetup bad = good;
    change(bad);
    expect_error(ErrorCode::invalid_argument, [&] { cuda::make_distributed_optimizer(bad); });
  };
  const auto fine = [&](const std::function<void(OptimizerSetup&)>& change) {
    OptimizerSetup other = good;
    change(other);
    CHECK_NOTHROW(cuda::make_distributed_optimizer(other));
  };
  // Shard maps: unaligned for chunk1024, an element without an owner, another world, another layout.
  const ShardMap ragged = ragged_map(layout, 1);
  refused([&](OptimizerSetup& s) { s.shards = &ragged; });
  for (const NormForm norm : {NormForm::exact, NormForm::one, NormForm::inf}) {
    fine([&](OptimizerSetup& s) {
      s.shards = &ragged;
      s.hyper.norm = norm;
    });
  }
  const std::int64_t all = layout.padded_numel();
  const ShardMap holes(all, 1, {Bucket{{0, all}, {{{0, 10}, {11, all}}}}});
  refused([&](OptimizerSetup& s) {
    s.shards = &holes;
    s.hyper.norm = NormForm::exact;
  });
  const ShardMap two(all, 2, 2048);
  refused([&](OptimizerSetup& s) { s.shards = &two; });
  const ShardMap longer(all + 1024, 1, 2048);
  refused([&](OptimizerSetup& s) { s.shards = &longer; });
  // Grids.
  for (const int cp : {0, -1, 3, 16}) refused([&](OptimizerSetup& s) { s.cp = cp; });
  refused([](OptimizerSetup& s) { s.cp = 2; });  // one data rank
  ThreadWorld tp_world(2);
  const auto tp = tp_world.communicator(0);
  const auto with_tp = [&](OptimizerSetup& s) {
    s.tp = tp.get();
    s.hyper.norm = NormForm::exact;
    s.placement.resize(layout.tensors().size());
  };
  fine(with_tp);
  refused([&](OptimizerSetup& s) {
    with_tp(s);
    s.hyper.norm = NormForm::chunk1024;
  });
  refused([&](OptimizerSetup& s) {
    with_tp(s);
    s.placement.clear();
  });
  fine([&](OptimizerSetup& s) { s.placement.resize(layout.tensors().size()); });
  refused([&](OptimizerSetup& s) { s.placement.resize(layout.tensors().size() - 1); });
  for (const TensorPlacement& place :
       {TensorPlacement{true, 0, 0, 1}, TensorPlacement{true, 0, 1, 0}, TensorPlacement{true, -1, 1, 1}}) {
    refused([&](OptimizerSetup& s) {
      s.placement.resize(layout.tensors().size());
      s.placement.front() = place;
    });
  }
  // Sums, groups and counts.
  fine([](OptimizerSetup& s) {
    s.micro_batches = 128;
    s.grad_sum = GradSum::binned;
  });
  refused([](OptimizerSetup& s) {
    s.micro_batches = 129;
    s.grad_sum = GradSum::binned;
  });
  ThreadWorld cp_world(2);
  const auto cp_comm = cp_world.communicator(0);
  const auto with_cp = [&](OptimizerSetup& s) {
    s.comm = cp_comm.get();
    s.shards = &two;
    s.cp = 2;
    s.grad_sum = GradSum::binned;
    s.micro_batches = 64;
  };
  fine(with_cp);
  refused([&](OptimizerSetup& s) {
    with_cp(s);
    s.micro_batches = 65;
  });
  refused([](OptimizerSetup& s) { s.persistent_numel = -1; });
  refused([](OptimizerSetup& s) { s.groups.of_tensor = {0}; });
  refused([&](OptimizerSetup& s) { s.groups.of_tensor.assign(layout.tensors().size(), 1); });
  refused([&](OptimizerSetup& s) { s.groups.of_tensor.assign(layout.tensors().size(), -1); });
  refused([](OptimizerSetup& s) {
    s.groups.rules.resize(1);
    s.groups.rules[0].lr = -1;
  });
}
