// Predicted bytes and messages of a step against those of the production optimizer, to 0 bytes: layer by
// layer.

#include <doctest.h>

#include "tests/verification/tools/plan/accounting_run.hpp"
#include "tests/verification/tools/plan/accounting_settings.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

}  // namespace

TEST_CASE("accounting: layer by layer, with and without overlap") {
  check_worlds(vary_layered, few_worlds);
}
TEST_CASE("nightly: accounting: layer by layer, all worlds") {
  check_worlds(vary_layered, all_worlds);
}

TEST_CASE("accounting: layer by layer on grids, with persistent tensors") {
  Shuffle rest;
  for (const Grid& g :
       {Grid{2, 3, 1, 1}, Grid{1, 4, 1, 2}, Grid{1, 2, 2, 1}, Grid{2, 2, 2, 2}, Grid{1, 1, 8, 1}}) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const GradSum sum : {GradSum::tree, GradSum::binned, GradSum::native}) {
        for (const std::int64_t persistent_numel : {0, 77, 2048}) {
          AccountedRun run;
          run.grid = g;
          run.setup.stage = stage;
          run.setup.micro_batches = 5;
          run.layout = rest.one_of(grid_layouts);
          vary_layered(run, rest);
          run.setup.grad_sum = sum;
          run.setup.persistent_numel = persistent_numel;
          check_account(run);
        }
      }
    }
  }
}
