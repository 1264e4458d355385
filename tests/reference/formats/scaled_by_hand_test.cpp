// 8-bit parameters (R24) by hand: master minus gradient, one step after another.

#include <string>

#include "tests/reference/alone.hpp"

namespace scaled_by_hand_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// Plain sgd with a rate of 1 and one micro-batch: a step subtracts the gradient from the masters.
struct ByHand {
  explicit ByHand(const ParamScaling& scaling, MissingGrad missing = MissingGrad::zero)
      : layout({{"w", {2, 3}}, {"v", {2}}}),
        master(static_cast<std::size_t>(layout.padded_numel()), nan32) {
    settings.layout = &layout;
    settings.param_dtype = DType::e4m3;
    settings.scaling = scaling;
    settings.hyper.rule = UpdateRule::sgd;
    settings.hyper.lr = 1;
    settings.hyper.weight_decay = 0;
    settings.hyper.max_norm.reset();
    settings.hyper.norm = NormForm::exact;
    settings.missing_grad = missing;
    set({1, -2, 0.5F, 0, 4, -0.25F}, {1, 0});
    state.master = master;
    steps = {0, 0};
    state.tensor_steps = steps;
  }

  void set(const std::vector<float>& w, const std::vector<float>& v) {
    std::ranges::copy(w, master.begin());
    std::ranges::copy(v, master.begin() + 1024);
  }
  void begin() { optimizer = std::make_unique<reference::DenseOptimizer>(settings, state); }

  /// Subtracts these values; has_grad: of w and v.
  bool take_off(const std::vector<float>& w, const std::vector<float>& v,
                const std::vector<bool>& has_grad = {true, true}) {
    std::vector<float> leaf(master.size(), nan32);
    std::ranges::copy(w, leaf.begin());
    std::ranges::copy(v, leaf.begin() + 1024);
    const TensorView view{leaf.data(), DType::fp32, static_cast<std::int64_t>(leaf.size())};
    return optimizer->step({view}, {{}, {has_grad}});
  }

  template <class T>
  std::vector<T> words(BufferId id) const {
    const TensorView view = optimizer->buffer(id);
    const auto* begin = static_cast<const T*>(view.data);
    return {begin, begin + view.numel};
  }
  /// The amax values as floats.
  std::vector<float> amax(BufferId id = BufferId::amax) const {
    std::vector<float> values;
    for (const std::uint32_t word : words<std::uint32_t>(id))
      values.push_back(std::bit_cast<float>(word));
    return values;
  }
  std::vector<float> scales() const { return words<float>(BufferId::param_scale); }
  /// Codes of w, widened.
  std::vector<float> codes(BufferId id = BufferId::param_full, std::int64_t begin = 0,
                           std::int64_t count = 6) const {
    const auto* code = static_cast<const e4m3*>(optimizer->buffer(id).data) + begin;
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(to_float(code[i]));
    return values;
  }

  FlatLayout layout;
  std::vector<float> master;
  std::vector<std::uint64_t> steps;
  StepSettings settings;
  FullState state;
  std::unique_ptr<reference::DenseOptimizer> optimizer;
};

using Floats = std::vector<float>;

ParamScaling delayed_of_three() {
  ParamScaling scaling = scaling_of(ScaleRecipe::delayed);
  scaling.history = 3;
  return scaling;
}

/// The gradient that doubles the masters of w.
const Floats doubling = {-1, 2, -0.5F, 0, -4, 0.25F};

}  // namespace

TEST_CASE("scaled parameters by hand: current computes the scale of a step from its own amax") {
  ParamScaling scaling = scaling_of(ScaleRecipe::current);
  scaling.columnwise = true;
  ByHand run(scaling);
  run.begin();
  CHECK(run.amax() == Floats{4, 1});
  CHECK(run.scales() == Floats{112, 448});  // 448 / 4, 448 / 1
  CHECK(run.words<float>(BufferId::param_scale_inv) == Floats{1.0F / 112, 1.0F / 448});
  CHECK(run.codes() == Floats{112, -224, 56, 0, 448, -28});
  CHECK(run.codes(BufferId::param_columns) == Floats{112, 0, -224, 448, 56, -28});
  CHECK(run.codes(BufferId::param_full, 1024, 2) == Floats{448, 0});
  CHECK(run.take_off(doubling, {0, 0}));
  CHECK(run.amax() == Floats{8, 1});
  CHECK(run.scales() == Floats{56, 448});
  CHECK(run.codes() == Floats{112, -224, 56, 0, 448, -28});  // twice the values, half the scale
  CHECK(run.take_off({0, 0, 0, 0, 4, 0}, {0, 1}));
  CHECK(run.scales() == Floats{112, 448});  // the largest are -4 and 4 again
  CHECK(run.codes() == Floats{224, -448, 112, 0, 448, -56});
  CHECK(run.codes(BufferId::param_columns) == Floats{224, 0, -448, 448, 112, -56});
  CHECK(run.codes(BufferId::param_full, 1024, 2) == Floats{448, -448});
}

TEST_CASE("scaled parameters by hand: delayed casts by earlier amaxes, and saturates meanwhile") {
  ByHand run(delayed_of_three());
  run.begin();
  CHECK(run.amax() == Floats{4, 1});
  CHECK(run.amax(BufferId::amax_history) == Floats{4, 0, 0, 1, 0, 0});
  CHECK(run.scales() == Floats{1, 1});
  CHECK(run.codes() == Floats{1, -2, 0.5F, 0, 4, -0.25F});
  CHECK(run.take_off(doubling, {0, 0}));
  CHECK(run.amax() == Floats{8, 1});
  CHECK(run.amax(BufferId::amax_history) == Floats{8, 0, 4, 1, 0, 1});
  CHECK(run.scales() == Floats{112, 448});  // of the amax 4, collected at the start
  CHECK(run.codes() == Floats{224, -448, 112, 0, 448, -56});  // 8 * 112 saturates
  CHECK(run.take_off({2, -4, 1, 0, 7, -0.5F}, {0, 0}));       // to zeros, and 1
  CHECK(run.amax() == Floats{1, 1});
  CHECK(run.amax(BufferId::amax_history) == Floats{1, 4, 8, 1, 1, 1});
  CHECK(run.scales() == Floats{56, 448});
  CHECK(run.codes() == Floats{0, 0, 0, 0, 56, 0});
  for (int step = 0; step < 2; ++step) CHECK(run.take_off({0, 0, 0, 0, 0, 0}, {0, 0}));
  CHECK(run.amax(BufferId::amax_history) == Floats{1, 1, 1, 1, 1, 1});
  CHECK(run.scales() == Floats{56, 448});  // 8 counted for the last time, when it left
  CHECK(run.take_off({0, 0, 0, 0, 0, 0}, {0, 0}));
  CHECK(run.scales() == Floats{448, 448});
}

TEST_CASE("scaled parameters by hand: a tensor of zeros keeps or shifts its history") {
  for (const EmptyAmax empty : {EmptyAmax::keep, EmptyAmax::roll}) {
    ParamScaling scaling = delayed_of_three();
    scaling.empty = empty;
    ByHand run(scaling);
    run.begin();
    CHECK(run.take_off({0, 0, 0, 0, 0, 0}, {1, 0}));  // v becomes zero
    CHECK(run.take_off({0, 0, 0, 0, 0, 0}, {0, 0}));
    const Floats v = empty == EmptyAmax::keep ? Floats{0, 0, 1} : Floats{0, 1, 0};
    const Floats history = run.amax(BufferId::amax_history);
    CHECK(Floats(history.begin() + 3, history.end()) == v);
    CHECK(run.scales() == Floats{112, 448});
  }
}

TEST_CASE("scaled parameters by hand: a tensor without a gradient keeps codes, scale and history") {
  ByHand run(delayed_of_three(), MissingGrad::skip);
  run.begin();
  CHECK(run.take_off(doubling, {0, 0}, {false, true}));
  CHECK(run.amax() == Floats{0, 1});
  CHECK(run.amax(BufferId::amax_history) == Floats{4, 0, 0, 1, 0, 1});
  CHECK(run.scales() == Floats{1, 448});
  CHECK(run.codes() == Floats{1, -2, 0.5F, 0, 4, -0.25F});
  CHECK(run.take_off(doubling, {0, 0}, {true, false}));
  CHECK(run.amax() == Floats{8, 0});
  CHECK(run.amax(BufferId::amax_history) == Floats{8, 0, 4, 1, 0, 1});
  CHECK(run.scales() == Floats{112, 448});
}

TEST_CASE("scaled parameters by hand: a skipped step changes nothing") {
  ByHand run(delayed_of_three());
  run.begin();
  CHECK(run.take_off(doubling, {0, 0}));
  CHECK_FALSE(run.take_off({inf32, 0, 0, 0, 0, 0}, {0, 0}));
  CHECK(run.amax() == Floats{8, 1});
  CHECK(run.amax(BufferId::amax_history) == Floats{8, 0, 4, 1, 0, 1});
  CHECK(run.scales() == Floats{112, 448});
  CHECK(run.codes() == Floats{224, -448, 112, 0, 448, -56});
}

TEST_CASE("scaled parameters by hand: a state with scales restores its codes") {
  ByHand run(delayed_of_three());
  run.begin();
  CHECK(run.take_off(doubling, {0, 0}));
  const Floats scales = run.scales();
  const auto history = run.words<std::uint32_t>(BufferId::amax_history);
  ByHand again(delayed_of_three());
  again.set({2, -4, 1, 0, 8, -0.5F}, {1, 0});
  again.state.master = again.master;
  again.state.param_scale = scales;
  again.state.amax_history = history;
  again.begin();
  CHECK(again.codes() == run.codes());
  CHECK(again.scales() == scales);
  CHECK(again.amax() == Floats{0, 0});  // of no step
  for (ByHand* one : {&run, &again}) CHECK(one->take_off({1, 0, 0, 0, 0, 0}, {0, 0}));
  CHECK(again.codes() == run.codes());
  CHECK(again.amax(BufferId::amax_history) == run.amax(BufferId::amax_history));
  CHECK(again.scales() == run.scales());

  again.state.amax_history = Span<const std::uint32_t>(history).first(3);
  CHECK_THROWS_WITH_AS(again.begin(), doctest::Contains("2 scales and 3 slots"), Error);
  again.state.amax_history = history;
  again.state.param_scale = {};
  CHECK_THROWS_WITH_AS(again.begin(), doctest::Contains("0 scales and 6 slots"), Error);
}

TEST_CASE(
    "scaled parameters by hand: dequantised masters are the values of their codes, at the start "
    "only") {
  ParamScaling scaling = scaling_of(ScaleRecipe::current);
  scaling.power_of_two = true;
  scaling.initial_master = InitialMaster::dequantised;
  ByHand run(scaling);
  run.set({1, -2, 0.53F, 0, 4, -0.26F}, {1, 0});
  run.state.master = run.master;
  run.begin();
  CHECK(run.amax() == Floats{4, 1});
  CHECK(run.scales() == Floats{64, 256});  // 112 and 448, rounded down
  CHECK(run.codes() == Floats{64, -128, 32, 0, 256, -16});
  const Floats w(run.optimizer->master().begin(), run.optimizer->master().begin() + 6);
  CHECK(w == Floats{1, -2, 0.5F, 0, 4, -0.25F});

  const Floats scales = run.scales();
  run.state.param_scale = scales;
  run.begin();  // continues: the masters do not change
  CHECK(run.optimizer->master()[2] == 0.53F);
}

TEST_CASE("scaled parameters by hand: columns of rows in blocks have their own scales and codes") {
  ParamScaling scaling = scaling_of(ScaleRecipe::mxfp8);
  scaling.columnwise = true;
  ByHand run(scaling, MissingGrad::skip);
  run.begin();
  CHECK(run.amax() == Floats{2, 4, 1});  // two rows of w, one of v
  CHECK(run.codes() == Floats{128, -256, 64, 0, 256, -16});
  CHECK(run.amax(BufferId::column_amax) ==
        Floats{1, 4, 0.5F, 1, 0});  // three columns of w, two of v
  CHECK(run.words<float>(BufferId::column_scale) == Floats{256, 64, 512, 256, 0x1p127F});
  CHECK(run.words<float>(BufferId::column_scale_inv) ==
        Floats{1.0F / 256, 1.0F / 64, 1.0F / 512, 1.0F / 256, 0x1p-127F});
  CHECK(run.codes(BufferId::param_columns) ==
        Floats{256, -128, 256, 0, 256, -128});  // row after row
  CHECK(run.codes(BufferId::column_shard) == run.codes(BufferId::param_columns));
  CHECK(run.codes(BufferId::param_columns, 1024, 2) == Floats{256, 0});
  // w doubles, v has no gradient: it keeps codes and scales, and its amax is 0.
  CHECK(run.take_off(doubling, {0, 0}, {true, false}));
  CHECK(run.amax(BufferId::column_amax) == Floats{2, 8, 1, 0, 0});
  CHECK(run.words<float>(BufferId::column_scale) == Floats{128, 32, 256, 256, 0x1p127F});
  CHECK(run.codes(BufferId::param_columns) == Floats{256, -128, 256, 0, 256, -128});
  CHECK(run.codes(BufferId::param_columns, 1024, 2) == Floats{256, 0});
}

TEST_CASE(
    "scaled parameters by hand: columns are computed from the masters before the first step") {
  ParamScaling scaling = scaling_of(ScaleRecipe::blockwise);
  scaling.blocks = ScaleBlocks::row_128;
  scaling.columnwise = true;
  scaling.initial_master = InitialMaster::dequantised;
  ByHand run(scaling);
  run.set({1, -2, 0.53F, 0, 4, -0.26F}, {1, 0});  // by rows 128 and 64: 0.53 becomes 64 / 128
  run.state.master = run.master;
  run.begin();
  CHECK(run.codes() == Floats{128, -256, 64, 0, 256, -16});
  CHECK(run.optimizer->master()[2] == 0.5F);
  CHECK(run.amax(BufferId::column_amax) == Floats{1, 4, 0.5F, 1, 0});
  CHECK(run.words<float>(BufferId::column_scale) == Floats{256, 64, 512, 256, 1});
  CHECK(run.codes(BufferId::param_columns) == Floats{256, -128, 256, 0, 256, -128});

  // A state has no columns: they are computed from its masters.
  const Floats scales = run.scales();
  run.state.param_scale = scales;
  run.begin();
  CHECK(run.amax() == Floats{0, 0, 0});
  CHECK(run.amax(BufferId::column_amax) == Floats{1, 4, 0.53F, 1, 0});
}

TEST_CASE("scaled parameters by hand: rows of 32 have their own scales") {
  const FlatLayout layout({{"w", {2, 40}}});
  std::vector<float> master(layout.padded_numel(), 1.0F);
  master[0] = 448;
  master[39] = 3;
  master[40] = -0.25F;
  for (std::size_t i = 41; i < 72; ++i) master[i] = 0;
  for (std::size_t i = 72; i < 80; ++i) master[i] = 0;
  StepSettings settings;
  settings.layout = &layout;
  settings.param_dtype = DType::e4m3;
  settings.scaling = scaling_of(ScaleRecipe::mxfp8);
  settings.hyper.rule = UpdateRule::sgd;
  FullState state;
  state.master = master;
  const reference::DenseOptimizer optimizer(settings, state);
  const auto* scale = static_cast<const float*>(optimizer.buffer(BufferId::param_scale).data);
  CHECK(optimizer.buffer(BufferId::param_scale).numel == 4);
  CHECK(scale[0] == 1);         // 448 fits as it is
  CHECK(scale[1] == 0x1p7F);    // 3 * 128 = 384
  CHECK(scale[2] == 0x1p10F);   // 0.25 * 1024 = 256
  CHECK(scale[3] == 0x1p127F);  // zeros
  const auto* inverse = static_cast<const float*>(optimizer.buffer(BufferId::param_scale_inv).data);
  CHECK(inverse[2] == 0x1p-10F);
  CHECK(inverse[3] == 0x1p-127F);
  const auto* codes = static_cast<const e4m3*>(optimizer.param().data);
  CHECK(to_float(codes[0]) == 448);
  CHECK(to_float(codes[1]) == 1);
  CHECK(to_float(codes[39]) == 384);
  CHECK(to_float(codes[40]) == -256);
}

}  // namespace scaled_by_hand_test
