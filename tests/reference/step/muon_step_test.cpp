// The rule muon without ranks, by hand: which tensors it updates as matrices, and how.

#include <algorithm>
#include <cmath>

#include "reference/operations.hpp"
#include "tests/reference/step/dense_support.hpp"

namespace muon_step_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

constexpr float after_one_step = 0.6953125F;  // of 1, see newton_schulz_test.cpp

/// Three elements, two of them a matrix of one row; one Newton-Schulz step.
ThreeElements one_matrix() {
  ThreeElements model;
  model.layout = FlatLayout({{"pair", {1, 2}}, {"single", {1}}});
  OptimizerHyper& hyper = model.setup.hyper;
  hyper.rule = UpdateRule::muon;
  hyper.momentum = 0.5;
  hyper.nesterov = true;
  hyper.muon.newton_schulz.steps = 1;
  hyper.muon.scale = MuonScale::none;
  model.setup.matrix_tensors = {{true, false, {}}, {false, false, {}}};
  return model;
}

const std::vector<std::vector<float>> leaves = {{3, 0, 5}, {5, 0, -5}};  // g1 = (1, 0, 0)

TensorView orthogonal(const reference::DenseOptimizer& optimizer) {
  return optimizer.buffer(BufferId::orthogonal);
}

/// One matrix of rows by columns, and its gradient of one micro-batch.
struct OneMatrix {
  OneMatrix(std::int64_t rows, std::int64_t columns, const MatrixTensor& matrix)
      : layout({{"m", {rows, columns}}}),
        numel(rows * columns),
        master(random_values(layout.padded_numel(), 1, 2)),
        exp_avg(random_values(layout.padded_numel(), 2, 2)),
        exp_avg_sq(static_cast<std::size_t>(layout.padded_numel()), nan32),  // never read
        grad(random_values(layout.padded_numel(), 3, 2)) {
    setup.layout = &layout;
    setup.matrix_tensors = {matrix};
    setup.hyper.rule = UpdateRule::muon;
    setup.hyper.momentum = 0.95;
    setup.hyper.lr = 0.02;
    setup.hyper.max_norm.reset();
  }

  FullState state() const {
    FullState state;
    state.master = master;
    state.slots[StateSlot::exp_avg] = exp_avg;
    state.slots[StateSlot::exp_avg_sq] = exp_avg_sq;
    return state;
  }

  /// Checks a step against the operations of parts, which are lists of elements, row after row.
  void check(const std::vector<std::vector<std::int64_t>>& parts, std::int64_t part_rows_of_all,
             const std::vector<std::int64_t>& rows_of_part) {
    reference::DenseOptimizer optimizer(setup, state());
    CHECK(optimizer.step({{grad.data(), DType::fp32, layout.padded_numel()}}));
    const StepScalars s = reference::step_scalars(setup.hyper, 1, 0, 1);
    std::vector<float> e(grad.size());
    reference::muon_momentum({}, {setup.hyper.nesterov, setup.hyper.maximize}, s, grad, exp_avg, e);
    std::size_t covered = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::vector<std::int64_t>& part = parts[i];
      const std::int64_t rows = part_rows_of_all > 0 ? part_rows_of_all : rows_of_part[i];
      const std::int64_t columns = static_cast<std::int64_t>(part.size()) / rows;
      std::vector<float> values;
      for (const std::int64_t element : part) values.push_back(e[element]);
      reference::newton_schulz({}, setup.hyper.muon.newton_schulz, rows, columns, values, values);
      const float step_size = reference::muon_step_size(setup.hyper.muon, s, rows, columns);
      for (std::size_t k = 0; k < part.size(); ++k) {
        const auto at = static_cast<std::size_t>(part[k]);
        std::vector<float> weight = {master[at]};
        reference::muon_update({}, s, step_size, std::vector<float>{values[k]}, weight);
        CHECK(bits(optimizer.last_step().orthogonal[at]) == bits(values[k]));
        CHECK(bits(optimizer.master()[at]) == bits(weight[0]));
        CHECK(bits(optimizer.state(BufferId::exp_avg)[at]) == bits(exp_avg[at]));
        CHECK(std::isnan(optimizer.state(BufferId::exp_avg_sq)[at]));
        ++covered;
      }
    }
    CHECK(covered == static_cast<std::size_t>(numel));
  }

  FlatLayout layout;
  std::int64_t numel;
  std::vector<float> master, exp_avg, exp_avg_sq, grad;
  StepSettings setup;
};

}  // namespace

TEST_CASE("muon step: one matrix and one vector by hand") {
  // ema: exp_avg = (1/2, 0), e = 1/2 + 1/4 = 3/4; O is that of 1; w = m/8 = 1, -1/2.
  ThreeElements model = one_matrix();
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(three(optimizer.last_step().orthogonal) == std::vector<float>{0, 0, 0});
  CHECK(step(optimizer, leaves));
  CHECK(three(optimizer.last_step().orthogonal) == std::vector<float>{after_one_step, 0, 0});
  CHECK(three(optimizer.master()) ==
        std::vector<float>{8 - (after_one_step / 4 + 1), -3.5F, 14});  // as adamw: 16 - 2
  CHECK(three(optimizer.state(BufferId::exp_avg)) == std::vector<float>{0.5F, 0, 0});
  CHECK(three(optimizer.state(BufferId::exp_avg_sq)) == std::vector<float>{0, 0, 0});
  CHECK(orthogonal(optimizer).numel == model.layout.padded_numel());
  CHECK(read<float>(orthogonal(optimizer)) == after_one_step);

  // The vector's update is that of adamw, bit for bit.
  ThreeElements other;
  reference::DenseOptimizer adamw(other.setup, other.state());
  const std::vector<std::vector<float>> uneven = {{3, 0, 5}, {5, 0, 7}};
  CHECK(step(adamw, uneven));
  CHECK(orthogonal(adamw).data == nullptr);
  reference::DenseOptimizer muon(model.setup, model.state());
  CHECK(step(muon, uneven));
  CHECK(three(muon.master())[2] == three(adamw.master())[2]);
  CHECK(three(muon.state(BufferId::exp_avg_sq))[2] == three(adamw.state(BufferId::exp_avg_sq))[2]);
  CHECK(three(muon.master())[0] != three(adamw.master())[0]);
}

TEST_CASE("muon step: heavy ball, maximize, and a tensor that the settings leave to adamw") {
  ThreeElements model = one_matrix();
  model.setup.hyper.maximize = true;
  model.setup.hyper.muon.family = MomentumFamily::heavy_ball;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, leaves));
  CHECK(three(optimizer.state(BufferId::exp_avg)) == std::vector<float>{-1, -0.0F, -0.0F});
  CHECK(three(optimizer.last_step().orthogonal)[0] == -after_one_step);

  ThreeElements no_matrix = one_matrix();
  no_matrix.setup.matrix_tensors[0].is_matrix = false;
  ThreeElements adamw;
  reference::DenseOptimizer left(no_matrix.setup, no_matrix.state());
  reference::DenseOptimizer right(adamw.setup, adamw.state());
  CHECK(step(left, leaves));
  CHECK(step(right, leaves));
  CHECK(three(left.master()) == three(right.master()));
  CHECK(three(left.last_step().orthogonal) == std::vector<float>{0, 0, 0});
}

TEST_CASE("muon step: lr and decay of the group of the matrix") {
  ThreeElements model = one_matrix();
  GroupRule rule;
  rule.name = "pair";
  rule.lr_mult = 0.5;
  rule.weight_decay_mult = 0;
  model.setup.groups.rules = {rule};
  model.setup.groups.of_tensor = {1, 0};
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, leaves));
  CHECK(three(optimizer.master()) == std::vector<float>{8 - after_one_step / 8, -4, 14});
}

TEST_CASE("muon step: a matrix without a gradient keeps its bits") {
  ThreeElements model = one_matrix();
  model.setup.missing_grad = MissingGrad::skip;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, leaves, {{}, {{true, true}, {false, true}}}));
  const std::vector<float> first = three(optimizer.master());
  CHECK(first[0] == 8 - (after_one_step / 4 + 1));
  CHECK(step(optimizer, {{0, 0, 5}, {0, 0, -5}}, {{}, {{false, true}, {false, true}}}));
  CHECK(three(optimizer.last_step().orthogonal) == std::vector<float>{0, 0, 0});
  CHECK(three(optimizer.master())[0] == first[0]);
  CHECK(three(optimizer.state(BufferId::exp_avg))[0] == 0.5F);
  CHECK(optimizer.tensor_steps() == std::vector<std::uint64_t>{1, 2});
  // Without the policy its momentum moves it.
  model.setup.missing_grad = MissingGrad::zero;
  reference::DenseOptimizer moving(model.setup, model.state());
  CHECK(step(moving, leaves));
  CHECK(step(moving, {{0, 0, 5}, {0, 0, -5}}));
  CHECK(three(moving.master())[0] != first[0]);
}

TEST_CASE("muon step: a step with an overflow is skipped, or propagates into the whole matrix") {
  for (const OnNonfinite policy : {OnNonfinite::skip, OnNonfinite::propagate}) {
    ThreeElements model = one_matrix();
    model.setup.on_nonfinite = policy;
    reference::DenseOptimizer optimizer(model.setup, model.state());
    CHECK(step(optimizer, leaves));
    const std::vector<float> before = three(optimizer.master());
    const bool applied = step(optimizer, {{3, inf32, 5}, {5, -4, -5}});
    CHECK(applied == (policy == OnNonfinite::propagate));
    if (applied) {
      CHECK(std::isnan(three(optimizer.master())[0]));
      CHECK(std::isnan(three(optimizer.master())[1]));
      CHECK(!std::isnan(three(optimizer.master())[2]));
      continue;
    }
    CHECK(three(optimizer.master()) == before);
    CHECK(three(optimizer.last_step().orthogonal) == std::vector<float>{after_one_step, 0, 0});
    CHECK(three(optimizer.state(BufferId::exp_avg)) == std::vector<float>{0.5F, 0, 0});
  }
}

TEST_CASE("muon step: a matrix as a whole, with every scale") {
  std::vector<std::int64_t> all;
  for (std::int64_t e = 0; e < 35; ++e) all.push_back(e);
  for (int scale = 0; scale < 5; ++scale) {
    OneMatrix matrix(7, 5, {true, false, {}});
    matrix.setup.hyper.muon.scale = static_cast<MuonScale>(scale);
    matrix.setup.hyper.muon.scale_factor = 0.75;
    matrix.setup.hyper.nesterov = scale % 2 == 0;
    matrix.check({all}, 7, {});
  }
}

TEST_CASE("muon step: parts of rows in periods, each with its own scale") {
  // Rows 0, 3 are part 0; rows 1, 2, 4, 5 part 1; two columns.
  OneMatrix matrix(6, 2, {true, false, {1, 2}});
  matrix.setup.hyper.muon.scale = MuonScale::unit_rms_norm;
  matrix.check({{0, 1, 6, 7}, {2, 3, 4, 5, 8, 9, 10, 11}}, 0, {2, 4});
  // One period of three parts.
  OneMatrix whole(6, 2, {true, false, {3, 1, 2}});
  whole.check({{0, 1, 2, 3, 4, 5}, {6, 7}, {8, 9, 10, 11}}, 0, {3, 1, 2});
}

TEST_CASE("muon step: parts of columns in periods") {
  // Columns 0, 3 are part 0; columns 1, 2, 4, 5 part 1; two rows.
  OneMatrix matrix(2, 6, {true, true, {1, 2}});
  matrix.setup.hyper.muon.scale = MuonScale::unit_rms_norm;
  matrix.check({{0, 3, 6, 9}, {1, 2, 4, 5, 7, 8, 10, 11}}, 2, {});
}

TEST_CASE("muon step: the stored second moment of a matrix is not stored again") {
  for (const StateFormat format : {StateFormat::bf16, StateFormat::fp16, StateFormat::e4m3}) {
    OneMatrix matrix(30, 40, {true, false, {}});
    // Stored a second time, blocks with these largest magnitudes have another scale_inv.
    std::ranges::fill(matrix.exp_avg_sq, 0.1F);
    for (std::size_t block = 0; block < matrix.exp_avg_sq.size(); block += 128)
      matrix.exp_avg_sq[block] = format == StateFormat::e4m3 ? 0x1.61e0d2p-2F : 0x1.69422p-2F;
    matrix.setup.state_formats.exp_avg_sq = format;
    reference::DenseOptimizer optimizer(matrix.setup, matrix.state());
    const auto kept = [&](BufferId id) { return copy_of(optimizer.buffer(id)); };
    const GuardedBuffer codes = kept(BufferId::exp_avg_sq);
    const GuardedBuffer scales = kept(BufferId::exp_avg_sq_scale);
    const std::vector<float> values = optimizer.values(BufferId::exp_avg_sq);
    for (int i = 0; i < 3; ++i)
      CHECK(optimizer.step({{matrix.grad.data(), DType::fp32, matrix.layout.padded_numel()}}));
    for (const auto& [id, before] : {std::pair(BufferId::exp_avg_sq, &codes),
                                     std::pair(BufferId::exp_avg_sq_scale, &scales)}) {
      const TensorView after = optimizer.buffer(id);
      CHECK(after.numel == before->view().numel);
      for (std::int64_t i = 0; i < after.numel; ++i)
        CHECK(element_bits(after, i) == element_bits(before->view(), i));
    }
    CHECK(bits(optimizer.values(BufferId::exp_avg_sq)) == bits(values));
  }
}

TEST_CASE("muon step: settings that do not fit are rejected") {
  const auto made = [](const auto& change) {
    ThreeElements model = one_matrix();
    change(model.setup);
    reference::DenseOptimizer(model.setup, model.state());
  };
  made([](StepSettings&) {});
  ZP_CHECK_INVALID(made([](StepSettings& s) { s.matrix_tensors.clear(); }));
  ZP_CHECK_INVALID(made([](StepSettings& s) { s.hyper.rule = UpdateRule::adamw; }));
  ZP_CHECK_INVALID(made([](StepSettings& s) { s.matrix_tensors[0].widths = {2}; }));
  ZP_CHECK_INVALID(made([](StepSettings& s) { s.hyper.muon.newton_schulz.steps = 0; }));
  ZP_CHECK_INVALID(made([](StepSettings& s) { s.hyper.momentum = 1.5; }));
  ZP_CHECK_INVALID(made([](StepSettings& s) { s.hyper.dampening = 0.5; }));
}

}  // namespace muon_step_test
