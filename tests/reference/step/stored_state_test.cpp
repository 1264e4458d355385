// State and master in fewer bits (R25): any partition equals the undistributed step, and that step
// equals the rule.

#include <cmath>
#include <limits>
#include <type_traits>

#include "common/base/float_formats.hpp"
#include "tests/reference/zero/reference_world.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

constexpr StateFormats formats[] = {
    {StateFormat::bf16, StateFormat::fp32, MasterFormat::fp32},
    {StateFormat::e4m3, StateFormat::fp16, MasterFormat::fp32},
    {StateFormat::fp16, StateFormat::e4m3, MasterFormat::bf16},
    {StateFormat::fp32, StateFormat::bf16, MasterFormat::bf16},
};

/// The stored value of an element of a block, by the text of R25 alone, in fp64 without roundings.
double stored_e4m3(float value, float amax) {
  if (amax == 0) return std::copysign(0.0, value);
  float scale = 448.0F / amax;
  if (std::isinf(scale)) scale = std::numeric_limits<float>::max();
  const float y = value * scale;
  double best = 0, distance = std::numeric_limits<double>::infinity();
  for (int code = 0; code < 127; ++code) {  // even codes win ties
    const double candidate = to_float(e4m3{static_cast<std::uint8_t>(code)});
    const double d = std::fabs(std::fabs(double{y}) - candidate);
    if (d < distance || (d == distance && code % 2 == 0)) best = candidate, distance = d;
  }
  const float scale_inv = 1.0F / scale;
  return std::copysign(static_cast<float>(best) * scale_inv, value);
}

}  // namespace

TEST_CASE(
    "stored state: every format, 1 to 5 ranks, every stage, any block boundaries: the "
    "undistributed "
    "bits") {
  for (const StateFormats& state : formats) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const int ranks : {1, 2, 3, 4, 5}) {
        for (const bool cut : {false, true}) {
          World world = reference_world(stage, {1, ranks}, 3);
          world.setup.state_formats = state;
          world.setup.hyper.amsgrad = ranks % 2 == 1;
          if (ranks == 4) {
            world.setup.hyper.rule = UpdateRule::sgd;
            world.setup.hyper.amsgrad = false;
            world.setup.hyper.momentum = 0.9;
          }
          if (ranks == 5) world.setup.missing_grad = MissingGrad::skip;
          if (ranks == 3) world.setup.param_rounding = ParamRounding::stochastic;
          if (cut) {
            world.shards = ranks % 2 == 0 ? dealt_map(Dealt::stretches) : ragged_map;
            world.setup.hyper.norm = NormForm::exact;
          }
          check_against_dense(world, "formats");
        }
      }
    }
  }
}

TEST_CASE("stored state: TP ranks join the scales of blocks that they share") {
  for (const StateFormats& state : formats) {
    for (const int stage : {0, 2}) {
      World world = reference_world(stage, {1, 2, 2, 1}, 3);
      world.tensors = {{{"gain", {37}}, {"column", {60, 18}}, {"row", {10, 17}}, {"bias", {1030}}},
                       {-1, 1, 0, -1}};
      world.shards = ragged_map;
      world.setup.hyper.norm = NormForm::exact;
      world.setup.state_formats = state;
      check_against_dense(world, "tp");
    }
  }
}

TEST_CASE("stored state: loaded values are stored as the nearest codes, with a scale per block") {
  World world = reference_world(0, {}, 3);
  world.setup.state_formats = {StateFormat::fp32, StateFormat::e4m3, MasterFormat::fp32};
  const FlatLayout layout(world.tensors.params);
  const InitialState initial = world.initial();
  const DenseWorld stored(world);
  const std::vector<float> values = stored.optimizer.values(BufferId::exp_avg_sq);
  const Span<const float> before = initial.view().slots[StateSlot::exp_avg_sq];
  int largest = 0, elements = 0;
  for (const Piece& piece : layout.pieces({{0, layout.padded_numel()}})) {
    for (std::int64_t begin = 0; begin < piece.numel; begin += state_block_numel) {
      const Piece block = piece.part(begin, state_block_numel);
      float amax = 0;
      for (std::int64_t i = block.global_begin; i < block.global_begin + block.numel; ++i)
        amax = std::max(amax, std::fabs(before[i]));
      for (std::int64_t i = block.global_begin; i < block.global_begin + block.numel; ++i) {
        const auto at = static_cast<std::size_t>(i);
        CHECK(double{values[at]} == stored_e4m3(before[at], amax));
        const TensorView codes = stored.optimizer.buffer(BufferId::exp_avg_sq);
        largest += element_bits(codes, i) == 0x7E ? 1 : 0;
        ++elements;
      }
    }
  }
  CHECK(elements == layout.numel());
  CHECK(largest >= 20);  // at least one in every block
}

TEST_CASE("stored state: a new state is exactly zero, and its scales are 1") {
  World world = reference_world(0, {}, 2);
  world.setup.state_formats = {StateFormat::fp16, StateFormat::e4m3, MasterFormat::fp32};
  const FlatLayout layout(world.tensors.params);
  StepSettings settings = world.setup;
  settings.layout = &layout;
  const std::vector<float> zeros(layout.padded_numel(), 0.0F);
  FullState state;
  state.master = zeros;
  state.slots = {zeros, zeros};
  const reference::DenseOptimizer optimizer(settings, state);
  for (const BufferId id : {BufferId::exp_avg_scale, BufferId::exp_avg_sq_scale}) {
    const TensorView scales = optimizer.buffer(id);
    for (std::int64_t block = 0; block < scales.numel; ++block) {
      const float scale = static_cast<const float*>(scales.data)[block];
      CHECK((scale == 1.0F || std::isnan(scale)));  // NaN: padding only
    }
  }
  for (const Piece& piece : layout.pieces({{0, layout.padded_numel()}})) {
    for (std::int64_t i = piece.global_begin; i < piece.global_begin + piece.numel; ++i) {
      CHECK(element_bits(optimizer.buffer(BufferId::exp_avg), i) == 0);
      CHECK(element_bits(optimizer.buffer(BufferId::exp_avg_sq), i) == 0);
    }
  }
}

TEST_CASE("stored state: a stored state is loaded bit for bit and continues the run") {
  World world = reference_world(0, {}, 3);
  world.setup.state_formats = {StateFormat::e4m3, StateFormat::fp16, MasterFormat::bf16};
  world.overflow_step = 0;
  DenseWorld through(world);
  through.step(1);
  const FlatLayout layout(world.tensors.params);
  const auto widened = [&](BufferId id) {
    const TensorView codes = through.optimizer.buffer(id);
    std::vector<float> values(codes.numel);
    for (std::int64_t i = 0; i < codes.numel; ++i) {
      values[i] = visit_format(codes.dtype, [&](auto format) -> float {
        using T = typename decltype(format)::type;
        if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, fp16> || std::is_same_v<T, e4m3>)
          return to_float(static_cast<const T*>(codes.data)[i]);
        return 0;
      });
    }
    return values;
  };
  const auto floats = [&](BufferId id) {
    const TensorView view = through.optimizer.buffer(id);
    const auto* data = static_cast<const float*>(view.data);
    return std::vector<float>(data, data + view.numel);
  };
  const std::vector<float> master = widened(BufferId::master), exp_avg = widened(BufferId::exp_avg),
                           exp_avg_sq = widened(BufferId::exp_avg_sq),
                           exp_avg_scale = floats(BufferId::exp_avg_scale),
                           exp_avg_sq_scale = floats(BufferId::exp_avg_sq_scale);
  FullState state;
  state.master = master;
  state.slots = {exp_avg, exp_avg_sq};
  state.slot_scales = {exp_avg_scale, exp_avg_sq_scale};
  state.applied_steps = through.optimizer.applied_steps();
  state.scaler = through.optimizer.loss_scaler();
  StepSettings settings = world.setup;
  settings.layout = &layout;
  const reference::DenseOptimizer resumed(settings, state);
  for (const BufferId id :
       {BufferId::master, BufferId::exp_avg, BufferId::exp_avg_sq, BufferId::exp_avg_scale,
        BufferId::exp_avg_sq_scale, BufferId::param_full}) {
    const TensorView before = through.optimizer.buffer(id), after = resumed.buffer(id);
    REQUIRE(before.numel == after.numel);
    int differing = 0;
    for (std::int64_t i = 0; i < before.numel; ++i)
      differing += element_bits(before, i) == element_bits(after, i) ? 0 : 1;
    CHECK_MESSAGE(differing == 0, name(id));
  }
}

TEST_CASE("stored state: a bf16 master needs bf16 parameters") {
  World world = reference_world(0, {}, 2);
  world.setup.state_formats.master = MasterFormat::bf16;
  world.setup.param_dtype = DType::fp16;
  CHECK_THROWS_WITH_AS(DenseWorld{world}, doctest::Contains("the parameter is the master"), Error);
}
