// Predicted bytes and messages of the rule muon (R28) against those of the production optimizer, to 0 bytes.

#include <doctest.h>

#include "common/step/matrix_tensors.hpp"
#include "tests/verification/tools/plan/accounting_run.hpp"
#include "tests/verification/tools/plan/accounting_settings.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

/// Small matrices, split over TP ranks in rows and in columns; some TP ranks have no row of `few`.
CutTensors small_matrices() {
  return {{{"w", {25, 24}},
           {"few", {3, 1031}},
           {"bias", {1030}},
           {"whole", {11, 100}},
           {"u", {10, 1024}},
           {"row", {24, 170}}},
          {1, 0, -1, -1, 1, 0}};
}

/// With the odd tensors three matrices: split over TP ranks in rows, in columns, and in columns of two rows.
void set_muon(AccountedRun& run, MatrixOwners owners, bool in_parts) {
  OptimizerSetup& setup = run.setup;
  setup.hyper.rule = UpdateRule::muon;
  setup.hyper.muon.newton_schulz.steps = 1;
  setup.matrix_owners = owners;
  std::vector<MatrixSplitRule> splits;
  if (in_parts) splits = {{"rows", {"w"}, {5, 20}, {}}, {"columns", {"u"}, {}, {256, 100, 156}}};
  setup.matrix_tensors = make_matrix_tensors({}, splits, FlatLayout(run.tensors.params));
}

constexpr MatrixOwners all_owners[] = {MatrixOwners::every, MatrixOwners::round_robin,
                                       MatrixOwners::balanced};

void check_matrices(const std::vector<Grid>& grids, const std::vector<LayoutKind>& layouts,
                    MatrixTensorParallel tensor_parallel = MatrixTensorParallel::duplicated) {
  Shuffle rest;
  for (const Grid& grid : grids) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const MatrixOwners owners : all_owners) {
        for (const LayoutKind layout : layouts) {
          AccountedRun run;
          run.grid = grid;
          run.layout = layout;
          run.bucket_numel = rest.one_of({1024, 2048, 1 << 20});
          run.setup.stage = stage;
          run.setup.micro_batches = 1 + rest.below(5);
          vary(run, rest);
          if (grid.tp > 1 && layout == LayoutKind::contract) {  // TP ranks own other elements
            run.tensors = small_matrices();
            run.bucket_numel = 1 << 20;
          }
          run.setup.missing_grad = MissingGrad::zero;
          run.overflows = false;  // no matrix would be brought together
          set_muon(run, owners, rest.below(2) == 1);
          if (grid.tp > 1 && tensor_parallel == MatrixTensorParallel::distributed) {
            run.setup.matrix_tensor_parallel = tensor_parallel;
            run.setup.hyper.muon.newton_schulz.form = static_cast<PolynomialForm>(rest.below(3));
            run.setup.hyper.muon.newton_schulz.steps = 1 + rest.below(2);
          }
          check_account(run);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("accounting: matrices of the rule muon, on data parallel ranks") {
  check_matrices({{1, 1, 1, 1}, {1, 2, 1, 1}, {1, 5, 1, 1}, {2, 3, 1, 1}},
                 {LayoutKind::contract, LayoutKind::megatron, LayoutKind::fsdp2});
}

TEST_CASE("accounting: matrices of the rule muon, split over tensor parallel ranks") {
  check_matrices({{1, 1, 2, 1}, {1, 3, 2, 1}, {1, 2, 4, 2}, {2, 2, 2, 1}},
                 {LayoutKind::contract, LayoutKind::greedy});
}

TEST_CASE("accounting: matrices of the rule muon, shared by tensor parallel ranks") {
  check_matrices({{1, 1, 2, 1}, {1, 3, 2, 1}, {1, 2, 4, 2}, {2, 1, 8, 1}},
                 {LayoutKind::contract, LayoutKind::greedy}, MatrixTensorParallel::distributed);
}

TEST_CASE("accounting: a skipped step of the rule muon brings no matrix together") {
  AccountedRun run;
  run.grid = {1, 3, 1, 1};
  run.setup.stage = 2;
  run.setup.micro_batches = 3;
  set_muon(run, MatrixOwners::balanced, false);
  for (const RankAccount& of_rank : account(run)) {
    std::int64_t calls = 0;
    for (const TrafficLine& line : of_rank.predicted_traffic.lines)
      calls += line.phase == Phase::update ? line.calls : 0;
    CHECK(calls == 2);
  }
  run.overflows = true;
  for (const RankAccount& of_rank : account(run)) {
    for (const TrafficLine& line : of_rank.predicted_traffic.lines)
      CHECK(line.phase != Phase::update);
  }
}
