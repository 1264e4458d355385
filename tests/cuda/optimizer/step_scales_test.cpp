// Parameters in 8 bits in the production step (R24): one rank against an independent implementation
// of the rule, and every parallel configuration against one rank.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "common/step/scaled_params.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/formats/scales_support.hpp"

namespace step_scales_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

using Bytes = std::vector<std::byte>;
using Seen = std::map<BufferId, Bytes>;

template <class T>
std::vector<T> values(const Bytes& bytes) {
  std::vector<T> all(bytes.size() / sizeof(T));
  if (!all.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

Seen seen(DistributedOptimizer& optimizer) {
  Seen all;
  for (const Phase phase : {Phase::update, Phase::cast, Phase::gather}) {
    for (const ExposedBuffer& buffer : optimizer.exposed(phase)) {
      const auto* from = static_cast<const std::byte*>(buffer.view.data);
      all[buffer.id] = {from, from + buffer.view.num_bytes()};
    }
  }
  return all;
}

/// The value of a code of e4m3 or e5m2.
double value_of_code(DType dtype, int code) {
  const int fraction_bits = dtype == DType::e4m3 ? 3 : 2, bias = dtype == DType::e4m3 ? 7 : 15;
  const int exponent = (code & 0x7F) >> fraction_bits, fraction = code & ((1 << fraction_bits) - 1);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                    : std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

/// Magnitudes of a format in the order of their codes.
const std::vector<double>& magnitudes(DType dtype) {
  const auto make = [](DType of, int largest) {
    std::vector<double> all;
    for (int code = 0; code <= largest; ++code) all.push_back(value_of_code(of, code));
    return all;
  };
  static const std::vector<double> e4m3 = make(DType::e4m3, 0x7E), e5m2 = make(DType::e5m2, 0x7B);
  return dtype == DType::e4m3 ? e4m3 : e5m2;
}

/// The nearest code, the even one of two that are equally near; values that are too large become
/// the largest.
int code_of(DType dtype, float value) {
  const std::vector<double>& all = magnitudes(dtype);
  const double magnitude = std::fabs(double{value});
  const auto above = std::ranges::lower_bound(all, magnitude);
  auto code = static_cast<int>(above - all.begin());
  if (above == all.end()) --code;
  if (above != all.end() && code > 0) {
    const double up = *above - magnitude, down = magnitude - above[-1];
    if (down < up || (down == up && code % 2 != 0)) --code;
  }
  return code | (std::signbit(value) ? 0x80 : 0);
}

/// Through bf16 by halves: ties to even.
float through_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7FFFU + ((bits >> 16) & 1U)) & 0xFFFF0000U);
}

float value_of(const ParamScaling& scaling, float master) {
  return scaling.value == QuantizedValue::through_bf16 ? through_bf16(master) : master;
}

/// Scales by R22; finite amaxes alone. before: the scale that a delayed one may keep.
struct Rule {
  ParamScaling scaling;
  DType dtype;

  float top() const { return dtype == DType::e4m3 ? 448.0F : 57344.0F; }

  float current(float amax) const {
    const float a = std::max(amax, scaling.epsilon);
    if (a == 0) return 1;
    const float s = std::min(top() / a, std::numeric_limits<float>::max());
    return scaling.power_of_two ? std::ldexp(1.0F, std::ilogb(s)) : s;
  }

  float mxfp8(float amax) const {
    const float p = amax * (1.0F / top());
    int exponent = -127;
    while (exponent < 127 && std::ldexp(1.0, exponent) < p) ++exponent;
    return std::ldexp(1.0F, -exponent);
  }

  /// Shifts the slots of a block.
  void delayed(std::uint32_t* h, float& scale) const {
    const auto n = static_cast<int>(scaling.history);
    if (h[0] == 0 && scaling.empty == EmptyAmax::keep) return;
    const std::uint32_t m = scaling.choice == AmaxChoice::max ? *std::max_element(h, h + n) : h[0];
    if (m != 0) scale = std::ldexp(top(), -scaling.margin) / std::bit_cast<float>(m);
    std::rotate(h, h + 1,
                h + n);  // the newest becomes the last one, the oldest is in slot 0 ...
    h[0] = 0;            // ... and is discarded
  }
};

/// Result of a cast of new masters, for parameters or for columns with their own scales.
struct Made {
  TensorBlocks blocks;
  BufferId amax, scale, inverse, codes;
};

Made made_params(const StepSettings& settings) {
  return {blocks_of(settings), BufferId::amax, BufferId::param_scale, BufferId::param_scale_inv,
          BufferId::param_shard};
}
Made made_columns(const StepSettings& settings) {
  return {column_blocks_of(settings), BufferId::column_amax, BufferId::column_scale,
          BufferId::column_scale_inv, BufferId::column_shard};
}

/// On one rank, element by element.
void check_cast(const OptimizerSetup& setup, const Made& of, const Seen& before, const Seen& now,
                bool beginning, const std::vector<bool>& takes_part) {
  const TensorBlocks& blocks = of.blocks;
  const Rule rule{setup.scaling, setup.param_dtype};
  const auto count = static_cast<std::size_t>(blocks.num_blocks());
  const auto master = values<float>(now.at(BufferId::master));
  std::vector<std::uint32_t> amax(count, 0);
  std::vector<float> scale(count, 1.0F), inverse(count, 1.0F);
  const std::size_t slots =
      keeps_history(setup.scaling) ? static_cast<std::size_t>(setup.scaling.history) : 0;
  std::vector<std::uint32_t> history(count * slots, 0);
  std::vector<std::uint8_t> codes(master.size(), 0);
  if (!beginning) {
    scale = values<float>(before.at(of.scale));
    inverse = values<float>(before.at(of.inverse));
    codes = values<std::uint8_t>(before.at(of.codes));
    if (slots > 0) history = values<std::uint32_t>(before.at(BufferId::amax_history));
  }
  const auto for_elements = [&](std::size_t t, const auto& body) {
    const TensorSlot& slot = setup.layout->tensors()[t];
    for (std::int64_t e = 0; e < slot.numel; ++e)
      body(static_cast<std::size_t>(slot.begin + e),
           static_cast<std::size_t>(blocks.block_of(static_cast<std::int64_t>(t), e)));
  };
  for (std::size_t t = 0; t < takes_part.size(); ++t) {
    if (!takes_part[t]) continue;
    for_elements(t, [&](std::size_t i, std::size_t b) {
      amax[b] = std::max(
          amax[b], std::bit_cast<std::uint32_t>(std::fabs(value_of(setup.scaling, master[i]))));
    });
    const auto first = static_cast<std::size_t>(blocks.first_block(static_cast<std::int64_t>(t)));
    const std::int64_t end = blocks.grid(static_cast<std::int64_t>(t)).num_blocks();
    for (std::size_t b = first; b < first + static_cast<std::size_t>(end); ++b) {
      const float a = std::bit_cast<float>(amax[b]);
      if (setup.scaling.recipe == ScaleRecipe::delayed) {
        if (!beginning) rule.delayed(history.data() + b * slots, scale[b]);
        history[b * slots] = amax[b];
      } else {
        scale[b] = setup.scaling.recipe == ScaleRecipe::mxfp8 ? rule.mxfp8(a) : rule.current(a);
      }
      inverse[b] = 1.0F / scale[b];
    }
    for_elements(t, [&](std::size_t i, std::size_t b) {
      codes[i] = static_cast<std::uint8_t>(
          code_of(setup.param_dtype, value_of(setup.scaling, master[i]) * scale[b]));
    });
  }
  CHECK(values<std::uint32_t>(now.at(of.amax)) == amax);
  CHECK(values<float>(now.at(of.scale)) == scale);
  CHECK(values<float>(now.at(of.inverse)) == inverse);
  if (slots > 0) CHECK(values<std::uint32_t>(now.at(BufferId::amax_history)) == history);
  const auto made = values<std::uint8_t>(now.at(of.codes));
  std::int64_t wrong = 0;
  for (std::size_t t = 0; t < takes_part.size(); ++t) {
    for_elements(t, [&](std::size_t i, std::size_t) { wrong += made[i] != codes[i] ? 1 : 0; });
  }
  CHECK(wrong == 0);
}

bool transposed(const FlatLayout& layout, const Bytes& full, const Bytes& columns) {
  bool same = true;
  for (const TensorSlot& slot : layout.tensors()) {
    const std::int64_t width = slot.shape.empty() ? 1 : slot.shape.back();
    const std::int64_t rows = slot.numel == 0 ? 0 : slot.numel / width;
    for (std::int64_t e = 0; e < slot.numel; ++e) {
      const std::int64_t to = e % width * rows + e / width;
      same = same && full[slot.begin + e] == columns[slot.begin + to];
    }
  }
  return same;
}

}  // namespace

TEST_CASE("scales: one rank follows R24, step by step") {
  for (const DType dtype : {DType::e4m3, DType::e5m2}) {
    for (const ParamScaling& scaling : every_scaling()) {
      for (const bool fused : {false, true}) {
        for (const MissingGrad missing : {MissingGrad::zero, MissingGrad::skip}) {
          CAPTURE(name(scaling.recipe));
          CAPTURE(fused);
          CAPTURE(name(missing));
          World world = scales_world({1, 1}, scaling, dtype);
          world.make = production(fused);
          world.setup.missing_grad = missing;
          WholeGrads grads(world.tensors, world.grads(), world.grid);
          const FlatLayout layout(world.tensors.params);
          const ShardMap shards(layout.padded_numel(), 1, 1024);
          const std::unique_ptr<Communicator> self = make_self_communicator();
          OptimizerSetup setup = world.setup;
          setup.layout = &layout;
          setup.shards = &shards;
          setup.comm = self.get();
          const std::unique_ptr<DistributedOptimizer> optimizer = world.make(setup);
          const InitialState initial = world.initial();
          optimizer->load_state(initial.view());
          Seen before = seen(*optimizer);
          const std::size_t tensors = layout.tensors().size();
          if (scaling.initial_master == InitialMaster::high_precision) {
            check_cast(setup, made_params(setup), {}, before, true,
                       std::vector<bool>(tensors, true));
          }
          const bool own_columns =
              has_own_columns(scaling);  // of masters as they are after all of that
          if (own_columns)
            check_cast(setup, made_columns(setup), {}, before, true,
                       std::vector<bool>(tensors, true));
          for (int step = 1; step <= 3; ++step) {
            CAPTURE(step);
            grads.begin_step(step, optimizer->loss_scaler().log2_scale,
                             optimizer->exposed(Phase::gather).front().view);
            REQUIRE(optimizer->step(grads));
            const Seen now = seen(*optimizer);
            std::vector<bool> takes_part(tensors, true);
            for (std::size_t t = 0; missing == MissingGrad::skip && t < tensors; ++t) {
              takes_part[t] = values<std::uint64_t>(now.at(BufferId::tensor_steps))[t] !=
                              values<std::uint64_t>(before.at(BufferId::tensor_steps))[t];
            }
            check_cast(setup, made_params(setup), before, now, false, takes_part);
            if (own_columns) {
              check_cast(setup, made_columns(setup), before, now, false, takes_part);
              CHECK(now.at(BufferId::param_columns) == now.at(BufferId::column_shard));
            } else if (scaling.columnwise) {
              CHECK(transposed(layout, now.at(BufferId::param_full),
                               now.at(BufferId::param_columns)));
            }
            before = now;
          }
        }
      }
    }
  }
}

TEST_CASE("scales: initial masters are the values of their codes, if the setup requires it") {
  ParamScaling scaling = scaling_of(ScaleRecipe::current);
  scaling.initial_master = InitialMaster::dequantised;
  World world = scales_world({1, 1}, scaling, DType::e4m3);
  const FlatLayout layout(world.tensors.params);
  const ShardMap shards(layout.padded_numel(), 1, 1024);
  const std::unique_ptr<Communicator> self = make_self_communicator();
  OptimizerSetup setup = world.setup;
  setup.layout = &layout;
  setup.shards = &shards;
  setup.comm = self.get();
  const std::unique_ptr<DistributedOptimizer> optimizer = production()(setup);
  const InitialState initial = world.initial();
  optimizer->load_state(initial.view());
  const Seen now = seen(*optimizer);
  const auto master = values<float>(now.at(BufferId::master));
  const auto inverse = values<float>(now.at(BufferId::param_scale_inv));
  const auto codes = values<std::uint8_t>(now.at(BufferId::param_shard));
  const TensorBlocks blocks = blocks_of(static_cast<const StepSettings&>(setup));
  std::int64_t wrong = 0;
  for (const Piece& piece : layout.pieces({{0, layout.padded_numel()}})) {
    for (std::int64_t e = 0; e < piece.numel; ++e) {
      const auto i = static_cast<std::size_t>(piece.local_begin + e);
      const float x = static_cast<float>(value_of_code(DType::e4m3, codes[i])) *
                      inverse[blocks.block_of(piece.tensor, e)];
      wrong += std::bit_cast<std::uint32_t>(x) != std::bit_cast<std::uint32_t>(master[i]) ? 1 : 0;
    }
  }
  CHECK(wrong == 0);

  // Loaded with its scales, a state keeps its masters and has the same codes.
  FullState state = initial.view();
  state.master = master;
  const auto scale = values<float>(now.at(BufferId::param_scale));
  state.param_scale = scale;
  optimizer->load_state(state);
  const Seen again = seen(*optimizer);
  CHECK(values<float>(again.at(BufferId::param_scale)) == scale);
  CHECK(values<float>(again.at(BufferId::param_scale_inv)) == inverse);
  const auto amax = values<std::uint32_t>(again.at(BufferId::amax));
  CHECK(std::ranges::all_of(amax, [](std::uint32_t a) { return a == 0; }));
  for (const Piece& piece : layout.pieces({{0, layout.padded_numel()}})) {
    const auto* const was = now.at(BufferId::param_shard).data() + piece.local_begin;
    const auto* const is = again.at(BufferId::param_shard).data() + piece.local_begin;
    CHECK(std::memcmp(was, is, static_cast<std::size_t>(piece.numel)) == 0);
  }
}

TEST_CASE("scales: every parallel configuration equals one rank, in every stage, fused or not") {
  for (const ParamScaling& scaling : every_scaling()) {
    for (const bool fused : {false, true}) {
      for (const int stage : {0, 1, 2, 3}) {
        for (const bool ragged : {false, true}) {
          World world = scales_world({1, 3}, scaling, DType::e4m3);
          world.make = production(fused);
          world.setup.stage = stage;
          world.setup.persistent_numel = 1400;
          world.setup.exec.num_threads = 2;
          if (ragged) world.shards = ragged_map;
          if (stage == 2) world.setup.missing_grad = MissingGrad::skip;
          if (stage == 1) world.setup.windows = ragged ? Windows::off : Windows::params;
          if (stage == 3 && scaling.recipe == ScaleRecipe::current) {
            world.overflow_step = 2;
            world.setup.scaler = lively_scaler();
          }
          check_against_one_rank(world);
        }
      }
    }
  }
}

TEST_CASE("scales: blocks split between TP ranks, and several instances") {
  for (const ParamScaling& scaling : every_scaling()) {
    World world = scales_world({2, 2, 2, 1}, scaling, DType::e5m2);
    world.tensors.params = {
        {"gain", {20}}, {"row", {10, 300}}, {"column", {9, 64}}, {"last", {40, 33}}};
    world.tensors.dims = {-1, 0, 1, 1};
    world.make = production(true);
    world.setup.stage = 1;
    // A transposed copy exists for tensors that are whole on a rank, which differ in the
    // undistributed model.
    world.setup.scaling.columnwise = has_own_columns(scaling);
    check_against_one_rank(world);
  }
}

TEST_CASE("scales: offloaded masters have the bits of masters that are not") {
  for (const ScaleRecipe recipe :
       {ScaleRecipe::current, ScaleRecipe::delayed, ScaleRecipe::blockwise, ScaleRecipe::mxfp8}) {
    for (const bool fused : {false, true}) {
      for (const Grid& grid : {Grid{1, 1}, Grid{1, 3}}) {
        World world = scales_world(grid, scaling_of(recipe), fused ? DType::e5m2 : DType::e4m3);
        world.make = production(fused);
        world.setup.stage = fused ? 1 : 3;
        if (recipe == ScaleRecipe::blockwise) world.setup.scaling.blocks = ScaleBlocks::row_128;
        world.setup.scaling.columnwise =
            recipe >= ScaleRecipe::blockwise;  // with their own codes and scales
        world.setup.scaling.initial_master =
            grid.ranks == 1 ? InitialMaster::dequantised : InitialMaster::high_precision;
        const WorldTruth truth = truth_of_one_rank(world);
        for (const double fraction : {0.3, 1.0}) {
          for (const OffloadPlace place : {OffloadPlace::host, OffloadPlace::file}) {
            const auto order = fused ? OffloadOrder::tensors : OffloadOrder::flat;
            world.setup.offload = {fraction, order, place, 777, !fused, {}, fused};
            check_world(world, truth,
                        "recipe " + std::string(name(recipe)) + ", offload " +
                            std::to_string(fraction) + ", " + std::string(name(place)));
          }
        }
      }
    }
  }
}

}  // namespace step_scales_test
