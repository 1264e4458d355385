// The rule muon in a step (R28): one rank against simple loops, and every parallel configuration
// and form against one rank.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/comm/recording.hpp"
#include "common/comm/self.hpp"
#include "common/step/muon_names.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/muon_truth.hpp"
#include "tests/cuda/optimizer/muon_world.hpp"
#include "tests/cuda/optimizer/state_formats.hpp"
#include "tests/support/values.hpp"

namespace step_muon_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

constexpr MatrixOwners all_owners[] = {MatrixOwners::every, MatrixOwners::round_robin,
                                       MatrixOwners::balanced};

void give_groups(World& world) {
  world.setup.groups.rules.resize(1);
  world.setup.groups.rules[0].name = "slow";
  world.setup.groups.rules[0].lr_mult = 0.25;
  world.setup.groups.of_tensor = {0, 1, 1, 1, 0, 0, 1, 0, 1, 1};
}

const float* floats(const StepTruth& step, BufferId id) {
  return static_cast<const float*>(step.at(id).data);
}

StepScalars scalars_of(const World& world, const StepTruth& step, std::int64_t tensor) {
  const bool per_tensor = world.setup.missing_grad == MissingGrad::skip;
  const std::int64_t set = per_tensor ? tensor : world.setup.groups.of(tensor);
  StepScalars scalars{};
  std::memcpy(&scalars,
              static_cast<const std::byte*>(step.at(BufferId::step_scalars).data) +
                  static_cast<std::size_t>(set) * sizeof(scalars),
              sizeof(scalars));
  return scalars;
}

bool was_updated(const World& world, const StepTruth& before, const StepTruth& after,
                 std::int64_t tensor) {
  if (world.setup.missing_grad != MissingGrad::skip) return true;
  const auto steps = [&](const StepTruth& step) {
    return static_cast<const std::uint64_t*>(step.at(BufferId::tensor_steps).data)[tensor];
  };
  return steps(before) != steps(after);
}

/// Elements of an applied step that differ from those of the simple loops; moved: matrices that the
/// loops move.
std::int64_t wrong_elements(const World& world, const StepTruth& before, const StepTruth& after,
                            std::int64_t& moved) {
  std::int64_t wrong = 0;
  const FlatLayout layout(world.tensors.params);
  const auto differs = [&](BufferId id, std::int64_t i, float want) {
    wrong += bits(floats(after, id)[i]) != bits(want) ? 1 : 0;
  };
  for (std::size_t t = 0; t < layout.tensors().size(); ++t) {
    const TensorSlot& slot = layout.tensors()[t];
    const auto index = static_cast<std::int64_t>(t);
    const StepScalars c = scalars_of(world, after, index);
    const bool updated = was_updated(world, before, after, index);
    const bool is_matrix = world.setup.matrix_tensors[t].is_matrix;
    const auto old = [&](BufferId id) { return floats(before, id) + slot.begin; };
    const float* const grad = floats(after, BufferId::grad) + slot.begin;
    SimpleMuon moves;
    if (is_matrix && updated) {
      moves = simple_muon(world.setup.hyper, c, world.setup.matrix_tensors[t], slot.shape[0],
                          slot.shape[1], grad, old(BufferId::master), old(BufferId::exp_avg));
      moved += slot.numel > 0 ? 1 : 0;
    }
    for (std::int64_t e = 0; e < slot.numel; ++e) {
      const std::int64_t i = slot.begin + e;
      const float p = old(BufferId::master)[e], m = old(BufferId::exp_avg)[e],
                  v = old(BufferId::exp_avg_sq)[e];
      const SimpleLamb adam = simple_lamb(c, world.setup.hyper.maximize, grad[e], p, m, v);
      const bool by_adam = updated && !is_matrix, by_muon = updated && is_matrix;
      differs(BufferId::orthogonal, i, by_muon ? moves.orthogonal[e] : 0);
      differs(BufferId::master, i, by_muon ? moves.master[e] : by_adam ? p - adam.u : p);
      differs(BufferId::exp_avg, i, by_muon ? moves.exp_avg[e] : by_adam ? adam.exp_avg : m);
      differs(BufferId::exp_avg_sq, i, by_adam ? adam.exp_avg_sq : v);
    }
  }
  return wrong;
}

/// Both forms of one rank have these buffers.
void check_same_results(const WorldTruth& a, const WorldTruth& b) {
  for (std::size_t step = 1; step < a.size(); ++step) {
    for (const BufferId id : {BufferId::orthogonal, BufferId::master, BufferId::exp_avg,
                              BufferId::exp_avg_sq, BufferId::param_full}) {
      const TensorView want = a[step].at(id), got = b[step].at(id);
      REQUIRE(want.numel == got.numel);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < want.numel; ++i)
        wrong += element_bits(want, i) != element_bits(got, i) ? 1 : 0;
      CAPTURE(name(id));
      CHECK(wrong == 0);
    }
  }
}

WorldTruth truth_of(World world, bool fused) {
  world.make = production(fused);
  return truth_of_one_rank(world);
}

/// The scale_inv of an element's block.
float scale_of(const StepTruth& step, BufferId id, std::int64_t element) {
  std::int64_t place = 0;
  for (const FlatRange& blocks : step.scale_blocks) {
    const std::int64_t block = element / 128;
    if (block < blocks.end) return floats(step, id)[place + block - blocks.begin];
    place += blocks.numel();
  }
  return nan32;
}

/// Every owner of matrices in this world, and whether TP ranks share the work.
void check_owners(World world, const WorldTruth& truth) {
  for (const MatrixOwners owners : all_owners) {
    world.setup.matrix_owners = owners;
    for (const auto tp : {MatrixTensorParallel::duplicated, MatrixTensorParallel::distributed}) {
      if (world.grid.tp == 1 && tp == MatrixTensorParallel::distributed) continue;
      world.setup.matrix_tensor_parallel = tp;
      check_world(world, truth, std::string(name(owners)) + ", " + std::string(name(tp)));
    }
  }
}

}  // namespace

TEST_CASE("muon step: masters, momentum and O are those of simple loops") {
  struct Case {
    MissingGrad missing;
    MomentumFamily family;
    MuonScale scale;
    bool nesterov, maximize, decay;
  };
  const Case cases[] = {
      {MissingGrad::zero, MomentumFamily::ema, MuonScale::original, true, false, true},
      {MissingGrad::skip, MomentumFamily::ema, MuonScale::match_rms_adamw, false, true, true},
      {MissingGrad::zero, MomentumFamily::heavy_ball, MuonScale::spectral, true, true, false},
      {MissingGrad::skip, MomentumFamily::heavy_ball, MuonScale::unit_rms_norm, false, false, true},
      {MissingGrad::zero, MomentumFamily::ema, MuonScale::none, true, false, false}};
  for (const Case& one : cases) {
    CAPTURE(static_cast<int>(one.scale));
    World world = muon_world({}, 1, false);
    world.setup.missing_grad = one.missing;
    world.setup.hyper.muon.family = one.family;
    world.setup.hyper.muon.scale = one.scale;
    world.setup.hyper.muon.scale_factor = one.decay ? 1 : 0.75;
    world.setup.hyper.nesterov = one.nesterov;
    world.setup.hyper.maximize = one.maximize;
    world.setup.hyper.weight_decay = one.decay ? 0.1 : 0;
    give_groups(world);
    const WorldTruth truth = truth_of_one_rank(world);
    std::int64_t moved = 0;
    for (std::size_t step = 1; step < truth.size(); ++step)
      CHECK(wrong_elements(world, truth[step - 1], truth[step], moved) == 0);
    CHECK(moved >= (one.missing == MissingGrad::zero ? 10 : 3));
    CHECK(moved <= (one.missing == MissingGrad::zero ? 10 : 9));
    const FlatLayout layout(world.tensors.params);
    for (const TensorSlot& slot : layout.tensors())  // after loading
      for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i)
        CHECK(bits(floats(truth[0], BufferId::orthogonal)[i]) == 0);
  }
}

TEST_CASE("muon step: stages, worlds and owners, in phases and fused, have the bits of one rank") {
  World world = muon_world({}, 0, false);
  give_groups(world);
  const WorldTruth phases = truth_of(world, false), passes = truth_of(world, true);
  check_same_results(phases, passes);
  for (const bool fused : {false, true}) {
    world.make = production(fused);
    for (const int stage : {0, 1, 2, 3}) {
      for (const int ranks : {1, 2, 3, 5, 8}) {
        world.setup.stage = stage;
        world.grid.ranks = ranks;
        world.setup.exec.num_threads = ranks == 3 ? 3 : 1;
        check_owners(world, fused ? passes : phases);
      }
    }
  }
}

TEST_CASE("muon step: other shards, of whole tensors, stretches and one rank alone") {
  for (const bool fused : {false, true}) {
    World world = muon_world({1, 3}, 2, fused);
    const WorldTruth truth = truth_of_one_rank(world);
    for (const auto& shards : {dealt_map(Dealt::stretches), dealt_map(Dealt::tensors),
                               dealt_map(Dealt::last_rank), World::contract_map(1024)}) {
      world.shards = shards;
      for (const Windows windows : {Windows::off, Windows::on}) {
        world.setup.windows = windows;
        check_owners(world, truth);
      }
    }
  }
}

TEST_CASE("muon step: missing gradients, skipped steps, drawn parameters and clipped elements") {
  for (const bool fused : {false, true}) {
    for (const int stage : {0, 1, 2, 3}) {
      World world = muon_world({1, 3}, stage, fused);
      world.steps = 4;
      world.overflow_step = 2;
      world.setup.missing_grad = MissingGrad::skip;
      world.setup.param_rounding = ParamRounding::stochastic;
      world.setup.hyper.clip_value = 0.01;
      world.setup.hyper.maximize = stage == 1;
      check_owners(world, truth_of_one_rank(world));
      if (!fused) check_same_results(truth_of(world, false), truth_of(world, true));
    }
  }
}

TEST_CASE("muon step: a gradient that is not finite makes O of its part NaN") {
  for (const bool fused : {false, true}) {
    World world = muon_world({1, 3}, 2, fused);
    world.setup.on_nonfinite = OnNonfinite::propagate;
    world.overflow_step = 1;
    const WorldTruth truth = truth_of_one_rank(world);
    std::int64_t nans = 0, numbers = 0;
    const TensorView o = truth[1].at(BufferId::orthogonal);
    for (const Piece& piece : FlatLayout(world.tensors.params).pieces({{0, o.numel}})) {
      for (std::int64_t e = 0; e < piece.numel; ++e)
        (is_nan(o, piece.global_begin + e) ? nans : numbers) += 1;
    }
    CHECK(nans > 0);
    CHECK(numbers > 0);
    check_owners(world, truth);
  }
}

TEST_CASE("muon step: a single micro-batch whose 16-bit gradient is G") {
  for (const bool fused : {false, true}) {
    World world = muon_world({}, 1, fused);
    world.setup.micro_batches = 1;
    world.setup.grad_dtype = DType::bf16;
    check_same_results(truth_of(world, false), truth_of(world, true));
    check_against_one_rank(world);
  }
}

TEST_CASE("muon step: clip groups and parameters in fp16 and 8 bits") {
  for (const bool fused : {false, true}) {
    for (const DType dtype : {DType::fp16, DType::e4m3, DType::fp32}) {
      World world = muon_world({1, 2}, 2, fused);
      world.setup.param_dtype = dtype;
      world.setup.clip_groups.rules = {{"first", {}, false, 0.5}, {"second", {}, false, {}}};
      world.setup.clip_groups.of_tensor = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0};
      check_owners(world, truth_of_one_rank(world));
      if (!fused) check_same_results(truth_of(world, false), truth_of(world, true));
    }
  }
}

TEST_CASE("muon step: state and master in fewer bits, which are decoded for the momentum") {
  for (const StateFormats& state : state_formats) {
    World world = muon_world({}, 2, false);
    world.setup.state_formats = state;
    world.setup.param_rounding = ParamRounding::stochastic;
    world.setup.missing_grad = MissingGrad::skip;
    const WorldTruth phases = truth_of(world, false), passes = truth_of(world, true);
    check_same_results(phases, passes);
    for (const bool fused : {false, true}) {
      world.make = production(fused);
      for (const int ranks : {1, 3}) {
        for (const bool cut : {false, true}) {
          world.grid.ranks = ranks;
          world.setup.exec.num_threads = ranks;
          world.shards = cut ? dealt_map(Dealt::stretches) : World::contract_map(2048);
          world.setup.offload = {};
          check_owners(world, fused ? passes : phases);
          world.setup.offload = {0.5, OffloadOrder::flat, OffloadPlace::file, 300, true, {}, cut};
          check_owners(world, fused ? passes : phases);
        }
      }
    }
  }
}

TEST_CASE("muon step: momentum in fewer bits is stored after e was made of it in fp32") {
  for (const StateFormats& formats :
       {StateFormats{StateFormat::bf16, StateFormat::e4m3, MasterFormat::fp32},
        StateFormats{StateFormat::fp16, StateFormat::fp16, MasterFormat::fp32}}) {
    const bool scaled = has_scales(formats.exp_avg);
    World world = muon_world({}, 1, false);
    world.steps = 1;
    world.setup.state_formats = formats;
    const WorldTruth steps = truth_of_one_rank(world);
    const FlatLayout layout(world.tensors.params);
    std::int64_t compared = 0, rounded = 0;
    for (std::size_t t = 0; t < layout.tensors().size(); ++t) {
      const TensorSlot& slot = layout.tensors()[t];
      if (!world.setup.matrix_tensors[t].is_matrix) continue;
      Values exp_avg;
      for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
        const float code = load_element(steps[0].at(BufferId::exp_avg), i);
        exp_avg.push_back(scaled ? code * scale_of(steps[0], BufferId::exp_avg_scale, i) : code);
      }
      const SimpleMuon want =
          simple_muon(world.setup.hyper, scalars_of(world, steps[1], static_cast<std::int64_t>(t)),
                      world.setup.matrix_tensors[t], slot.shape[0], slot.shape[1],
                      floats(steps[1], BufferId::grad) + slot.begin,
                      floats(steps[0], BufferId::master) + slot.begin, exp_avg.data());
      for (std::int64_t e = 0; e < slot.numel; ++e) {
        const std::int64_t i = slot.begin + e;
        CHECK(bits(floats(steps[1], BufferId::orthogonal)[i]) == bits(want.orthogonal[e]));
        CHECK(bits(floats(steps[1], BufferId::master)[i]) == bits(want.master[e]));
        // The other moment of a matrix keeps its codes and scales.
        CHECK(element_bits(steps[1].at(BufferId::exp_avg_sq), i) ==
              element_bits(steps[0].at(BufferId::exp_avg_sq), i));
        CHECK(bits(scale_of(steps[1], BufferId::exp_avg_sq_scale, i)) ==
              bits(scale_of(steps[0], BufferId::exp_avg_sq_scale, i)));
        const float stored = load_element(steps[1].at(BufferId::exp_avg), i);
        ++compared;
        if (scaled) {
          float amax = 0;
          for (std::int64_t k = e / 128 * 128; k < std::min(e / 128 * 128 + 128, slot.numel); ++k)
            amax = std::max(amax, std::abs(want.exp_avg[k]));
          const float scale = 65504 / amax;
          CHECK(bits(scale_of(steps[1], BufferId::exp_avg_scale, i)) == bits(1 / scale));
        } else {
          CHECK(bits(stored) == bits(simple_bf16(want.exp_avg[e])));
        }
        rounded += bits(stored) != bits(want.exp_avg[e]) ? 1 : 0;
      }
    }
    CHECK(compared == 77 + 960 + 432 + 1170 + 37);
    CHECK(rounded > 2000);
  }
}

TEST_CASE("muon step: matrices without padding between them are updated one by one") {
  World world = muon_world({}, 1, false);
  world.tensors = {{{"square", {32, 32}},
                    {"wide", {16, 64}},
                    {"vector", {1024}},
                    {"tall", {64, 16}},
                    {"last", {1024}}}};
  world.setup.hyper.muon.scale = MuonScale::spectral;
  world.setup.matrix_tensors = make_matrix_tensors({}, {}, FlatLayout(world.tensors.params));
  const WorldTruth phases = truth_of(world, false);
  std::int64_t moved = 0;
  for (std::size_t step = 1; step < phases.size(); ++step)
    CHECK(wrong_elements(world, phases[step - 1], phases[step], moved) == 0);
  CHECK(moved == 6);
  check_same_results(phases, truth_of(world, true));
}

TEST_CASE("muon step: offloaded state") {
  for (const bool fused : {false, true}) {
    for (const int ranks : {1, 3}) {
      World world = muon_world({1, ranks}, 1, fused);
      world.setup.missing_grad = MissingGrad::skip;
      const WorldTruth truth = truth_of(world, fused);
      for (const double fraction : {0.4, 1.0}) {
        for (const bool grads : {false, true}) {
          world.setup.offload = {fraction, OffloadOrder::flat, OffloadPlace::host, 300, true, {},
                                 grads};
          check_owners(world, truth);
        }
      }
      world.setup.param_dtype = DType::e4m3;
      world.setup.offload = {};
      const WorldTruth codes = truth_of(world, fused);
      world.setup.offload.fraction = 0.6;
      world.setup.offload.chunk_numel = 500;
      check_owners(world, codes);
    }
  }
}

TEST_CASE("muon step: TP ranks and instances have the bits of one rank") {
  for (const Grid& grid : {Grid{1, 1, 2, 1}, Grid{1, 3, 2, 1}, Grid{2, 2, 2, 1}, Grid{1, 2, 4, 1},
                           Grid{3, 1, 1, 1}, Grid{2, 2, 1, 2}}) {
    for (const bool fused : {false, true}) {
      for (const int stage : {0, 1, 3}) {
        World world = muon_tp_world(grid, stage, fused);
        world.setup.missing_grad = stage == 1 ? MissingGrad::skip : MissingGrad::zero;
        world.setup.param_rounding =
            stage == 1 ? ParamRounding::stochastic : ParamRounding::nearest;
        check_owners(world, truth_of_one_rank(world));
      }
    }
  }
}

TEST_CASE("muon step: TP ranks that share matrices have the bits of one rank, whatever the form") {
  for (const PolynomialForm form :
       {PolynomialForm::fused, PolynomialForm::scaled_factor, PolynomialForm::scaled_product}) {
    for (const MatrixFactors factors : {MatrixFactors::bf16, MatrixFactors::fp32}) {
      for (const int tp : {2, 4, 8}) {
        CAPTURE(tp);
        World world = muon_tp_world({1, 1, tp, 1}, 1, form == PolynomialForm::scaled_factor);
        world.setup.exec.num_threads = tp == 4 ? 3 : 1;
        NewtonSchulzOptions& options = world.setup.hyper.muon.newton_schulz;
        options.form = form;
        options.factors = factors;
        options.steps = tp == 2 ? 3 : 2;
        options.rounds_first = tp < 4;
        options.floor = tp == 4 ? NormFloor::add : NormFloor::clamp;
        world.setup.matrix_tensor_parallel = MatrixTensorParallel::distributed;
        check_world(world, truth_of_one_rank(world), "distributed");
      }
    }
  }
}

TEST_CASE("muon step: TP ranks that share matrices skip steps and tensors, and propagate NaN") {
  for (const bool fused : {false, true}) {
    World world = muon_tp_world({1, 2, 4, 1}, 2, fused);
    world.setup.matrix_tensor_parallel = MatrixTensorParallel::distributed;
    world.steps = 4;
    world.overflow_step = 2;
    world.setup.missing_grad = MissingGrad::skip;
    check_world(world, truth_of_one_rank(world), "skipped");
    world.setup.on_nonfinite = OnNonfinite::propagate;
    world.setup.missing_grad = MissingGrad::zero;
    check_world(world, truth_of_one_rank(world), "propagated");
  }
}

TEST_CASE("muon step: a rank sends the elements that others need, and those of its results") {
  for (const MatrixOwners owners : all_owners) {
    for (const bool shares : {false, true}) {
      World world = muon_world({1, 3}, 1, true);
      world.shards = shares ? ragged_map : dealt_map(Dealt::tensors);
      world.setup.matrix_owners = owners;
      world.wrap = [](Communicator& inner) {
        return std::make_unique<RecordingCommunicator>(inner);
      };
      const FlatLayout layout(world.tensors.params);
      const ShardMap shards = world.shards(layout, 3);
      std::vector<MatrixShape> shapes;
      std::vector<std::vector<std::int64_t>> owned;  // [matrices][ranks]
      for (std::size_t t = 0; t < layout.tensors().size(); ++t) {
        const TensorSlot& slot = layout.tensors()[t];
        if (!world.setup.matrix_tensors[t].is_matrix) continue;
        shapes.push_back({slot.shape[0], slot.shape[1]});
        owned.emplace_back(3);
        for (int rank = 0; rank < 3; ++rank)
          for (const Piece& piece : layout.pieces(shards.shard(rank)))
            if (piece.tensor == static_cast<std::int64_t>(t)) owned.back()[rank] += piece.numel;
      }
      std::vector<std::int64_t> want(3);
      const std::vector<int> owner_of = owners == MatrixOwners::every
                                            ? std::vector<int>(shapes.size(), -1)
                                            : owners_of_matrices(owners, shapes, 3);
      for (std::size_t m = 0; m < shapes.size(); ++m) {
        for (int from = 0; from < 3; ++from) {
          for (int to = 0; to < 3; ++to) {
            if (from == to) continue;
            if (owners == MatrixOwners::every) {
              want[from] += owned[m][to] > 0 ? 4 * owned[m][from] : 0;
            } else {
              want[from] += owner_of[m] == to ? 4 * owned[m][from] : 0;  // e
              want[from] += owner_of[m] == from ? 4 * owned[m][to] : 0;  // O
            }
          }
        }
      }
      check_ranks(world, "traffic", [&](WorldRank& rank) {
        rank.load();
        rank.prepare_grads(1);
        auto& recorded = dynamic_cast<RecordingCommunicator&>(*rank.setup.comm);
        for (const Phase phase : all_phases) {
          if (phase == Phase::update) recorded.reset();
          rank.optimizer->run_phase(phase, rank.grads);
          if (phase != Phase::update) continue;
          const Traffic traffic = recorded.traffic();
          const TrafficEntry sent = traffic.of(Collective::all_to_all);
          const std::int64_t bytes = want[rank.place().rank];
          const bool moves = want[0] + want[1] + want[2] > 0;
          const int calls = !moves ? 0 : owners == MatrixOwners::every ? 1 : 2;
          if (sent.bytes_sent != bytes || sent.calls != calls || traffic.total().calls != calls)
            return "sent " + std::to_string(sent.bytes_sent) + " bytes in " +
                   std::to_string(sent.calls) + " calls, not " + std::to_string(bytes) + " in " +
                   std::to_string(calls);
        }
        return std::string();
      });
      CHECK((want[0] + want[1] + want[2] > 0) == (shares || owners != MatrixOwners::every));
    }
  }
}

TEST_CASE("muon step: its memory besides that of adamw is O, whole matrices, and one iteration") {
  MemoryUse use[2];
  std::int64_t in_matrices = 0;
  for (const bool muon : {false, true}) {
    World world = muon_world({}, 1, true);
    const FlatLayout layout(world.tensors.params);
    in_matrices = 0;
    for (std::size_t t = 0; t < layout.tensors().size(); ++t)
      if (world.setup.matrix_tensors[t].is_matrix) in_matrices += layout.tensors()[t].numel;
    if (!muon) {
      world.setup.hyper.rule = UpdateRule::adamw;
      world.setup.hyper.momentum = 0;
      world.setup.hyper.nesterov = false;
      world.setup.matrix_tensors = {};
    }
    check_ranks(world, "", [&](WorldRank& rank) {
      rank.load();
      rank.prepare_grads(1);
      rank.optimizer->step(rank.grads);
      use[muon ? 1 : 0] = rank.optimizer->memory();
      return std::string();
    });
  }
  BytesByClass want = use[0].now;
  want[static_cast<std::size_t>(MemoryClass::state)] +=
      want[static_cast<std::size_t>(MemoryClass::master)];
  // X, turned, A, and packed factors of X X^T, for the part of the most elements: tall, 130 x 9.
  constexpr std::int64_t iteration = 9 * 130 + 9 * 9 + (9 + 9 + 62) * 130;
  want[static_cast<std::size_t>(MemoryClass::comm_buffer)] += 4 * (in_matrices + iteration);
  CHECK(use[1].now == want);
}

TEST_CASE("muon step: setups that it cannot run are errors") {
  const CutTensors tensors = muon_tensors();
  const FlatLayout layout(tensors.params);
  const ShardMap shards(layout.padded_numel(), 1, 2048);
  const std::unique_ptr<Communicator> self = make_self_communicator();
  const World world = muon_world({}, 1, false);
  OptimizerSetup good = world.setup;
  good.layout = &layout;
  good.shards = &shards;
  good.comm = self.get();
  CHECK_NOTHROW(cuda::make_distributed_optimizer(good));
  const auto refused = [&](const std::function<void(OptimizerSetup&)>& change) {
    OptimizerSetup bad = good;
    change(bad);
    expect_error(ErrorCode::invalid_argument, [&] { cuda::make_distributed_optimizer(bad); });
  };
  refused([](OptimizerSetup& s) { s.hyper.dampening = 0.5; });
  refused([](OptimizerSetup& s) { s.hyper.momentum = 0; });  // with nesterov
  refused([](OptimizerSetup& s) { s.hyper.muon.newton_schulz.steps = 0; });
  refused([](OptimizerSetup& s) { s.hyper.muon.scale_factor = 0; });
  refused([](OptimizerSetup& s) { s.matrix_tensors = {}; });
  refused([](OptimizerSetup& s) { s.matrix_tensors[1].is_matrix = true; });  // one dimension
  refused([](OptimizerSetup& s) { s.matrix_tensors[2].widths = {6, 2, 5}; });
  refused([](OptimizerSetup& s) { s.matrix_tensors[2].widths = {0, 6}; });
  refused([](OptimizerSetup& s) { s.hyper.rule = UpdateRule::adamw; });  // with matrices
}

}  // namespace step_muon_test
