// Predicted bytes and messages of a step against those of the production optimizer, to 0 bytes:
// whole leaves.

#include <doctest.h>

#include "tests/verification/tools/plan/accounting_run.hpp"
#include "tests/verification/tools/plan/accounting_settings.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

}  // namespace

TEST_CASE("accounting: two worlds, stages, orders, buckets, layouts and sums") {
  check_worlds(vary, few_worlds);
}
TEST_CASE("nightly: accounting: all worlds") { check_worlds(vary, all_worlds); }

TEST_CASE("accounting: instances, context and tensor parallelism") {
  Shuffle rest;
  for (const Grid& g :
       {Grid{2, 1, 1, 1}, Grid{2, 3, 1, 1}, Grid{3, 2, 1, 1}, Grid{1, 4, 1, 2}, Grid{1, 2, 2, 1},
        Grid{1, 1, 4, 1}, Grid{2, 2, 2, 2}, Grid{1, 8, 1, 4}, Grid{2, 1, 2, 1}}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const MicroBatchOrder order : {MicroBatchOrder::contiguous, MicroBatchOrder::strided}) {
        for (const GradSum sum : {GradSum::tree, GradSum::binned, GradSum::native}) {
          for (const std::int64_t micro_batches : {1, 5, 9}) {
            AccountedRun run;
            run.grid = g;
            run.setup.stage = stage;
            run.setup.order = order;
            run.setup.micro_batches = micro_batches;
            run.layout = rest.one_of(grid_layouts);
            vary(run, rest);
            run.setup.grad_sum = sum;
            check_account(run);
          }
        }
      }
    }
  }
}

TEST_CASE("accounting: state with scales, of blocks that shards and TP ranks split") {
  for (const Grid& g : {Grid{1, 3, 1, 1}, Grid{1, 1, 2, 1}, Grid{1, 2, 4, 1}, Grid{2, 2, 2, 1}}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const LayoutKind layout : {LayoutKind::contract, LayoutKind::deepspeed_flat}) {
        for (const bool fused : {false, true}) {
          AccountedRun run;
          run.grid = g;
          run.layout = layout;
          run.fused = fused;
          run.setup.stage = stage;
          run.setup.micro_batches = 2;
          run.setup.hyper.norm = NormForm::exact;
          run.setup.state_formats = {fused ? StateFormat::e4m3 : StateFormat::bf16,
                                     StateFormat::fp16, MasterFormat::fp32};
          check_account(run);
        }
      }
    }
  }
}
