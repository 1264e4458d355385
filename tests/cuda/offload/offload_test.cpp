// Offloaded state: the same bits as without offload, for every fraction, place and method.

#include "tests/cuda/optimizer/production_world.hpp"

#include <filesystem>

#include "common/base/error.hpp"
#include "tests/cuda/expect_error.hpp"

namespace offload_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

World offload_world(const Grid& grid, int stage, bool fused) {
  World world = production_world(grid, 4);
  world.make = production(fused);
  world.steps = 3;
  world.overflow_step = fused ? 0 : 2;  // in a skipped step only phases guarantee the limbs
  world.setup.stage = stage;
  world.setup.guards = true;
  world.setup.hyper.max_norm = 0.125;
  return world;
}

Offload offload(double fraction, std::int64_t chunk_numel, OffloadPlace place = OffloadPlace::host,
                OffloadOrder order = OffloadOrder::flat, bool overlap = true, bool grads = false) {
  return {fraction, order, place, chunk_numel, overlap, {}, grads};
}

WorldTruth truth_of(World world) {
  world.setup.offload = {};
  return truth_of_one_rank(world);
}

std::string text_of(const Offload& offload) {
  return "offload " + std::to_string(offload.fraction) + " " + std::string(name(offload.order)) +
         " " + std::string(name(offload.place)) + " " + std::to_string(offload.chunk_numel) +
         (offload.overlap ? "" : ", one after another") + (offload.grads ? ", with gradients" : "");
}

constexpr OffloadPlace places[] = {OffloadPlace::host, OffloadPlace::file};
constexpr OffloadOrder orders[] = {OffloadOrder::flat, OffloadOrder::tensors};

OptimizerHyper hyper_of(UpdateRule rule) {
  OptimizerHyper hyper;
  hyper.rule = rule;
  hyper.max_norm = 0.125;
  hyper.clip_value = 0.01;
  return hyper;
}

}  // namespace

TEST_CASE("offload: every fraction, chunk, order and place has the same bits as no offload") {
  for (const bool fused : {false, true}) {
    World world = offload_world({1, 2}, 2, fused);
    const WorldTruth truth = truth_of(world);
    for (const double fraction : {0.0, 0.013, 0.5, 0.9, 1.0}) {
      for (const std::int64_t chunk : {777, 1024, 100'000'000}) {
        for (const OffloadPlace place : places) {
          for (const OffloadOrder order : orders) {
            for (const bool grads : {false, true}) {
              world.setup.offload = offload(fraction, chunk, place, order, chunk != 1024, grads);
              check_world(world, truth, text_of(world.setup.offload));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("offload: chunks of one element") {
  World world = offload_world({1, 1}, 0, true);
  const WorldTruth truth = truth_of(world);
  for (const OffloadPlace place : places) {
    world.setup.offload = offload(0.03, 1, place);
    check_world(world, truth, text_of(world.setup.offload));
  }
}

TEST_CASE("offload: every rule with its state buffers") {
  for (const bool fused : {false, true}) {
    for (const RuleTraits& rule : update_rules) {
      World world = offload_world({1, 2}, 1, fused);
      world.setup.hyper = hyper_of(rule.rule);
      world.setup.hyper.momentum = rule.momentum() || rule.matrices ? 0.9 : 0;
      if (rule.matrices)
        world.setup.matrix_tensors = make_matrix_tensors({}, {}, FlatLayout(world.tensors.params));
      world.setup.hyper.amsgrad = rule.rule == UpdateRule::adamw;
      const WorldTruth truth = truth_of(world);
      for (const OffloadPlace place : places) {
        world.setup.offload = offload(0.6, 700, place);
        check_world(world, truth, text_of(world.setup.offload));
      }
    }
  }
}

TEST_CASE(
    "offload: stages, more ranks than chunks, parameter types and their rounding, tensors without "
    "gradients") {
  for (const bool fused : {false, true}) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const int ranks : {1, 3, 12}) {
        World world = offload_world({1, ranks}, stage, fused);
        world.setup.missing_grad = MissingGrad::skip;
        world.setup.param_dtype = stage == 1 ? DType::fp32 : DType::bf16;
        if (stage == 2) world.setup.param_rounding = ParamRounding::stochastic;
        if (stage == 3) world.setup.param_dtype = DType::fp16;
        const WorldTruth truth = truth_of(world);
        world.setup.offload =
            offload(0.5, 500, ranks == 3 ? OffloadPlace::file : OffloadPlace::host);
        world.setup.windows = Windows::off;
        world.setup.offload.grads = ranks != 1;
        check_world(world, truth, text_of(world.setup.offload));
      }
    }
  }
}

TEST_CASE("offload: steps without an observer, and a single micro-batch whose gradient is G") {
  for (const OffloadPlace place : places) {
    for (const bool fused : {false, true}) {
      World world = offload_world({1, 1}, 1, fused);
      world.setup.micro_batches = 1;
      world.steps = 4;
      world.overflow_step = 2;
      const WorldTruth truth = truth_of(world);
      world.setup.offload = offload(0.7, 900, place);
      check_ranks(world, text_of(world.setup.offload), [&](WorldRank& rank) {
        rank.load();
        for (int step = 1; step <= world.steps; ++step) {
          rank.prepare_grads(step);
          rank.optimizer->step(rank.grads);
        }
        return rank.rest_problem(truth.back());
      });
    }
  }
}

TEST_CASE("offload: memory moves out of the rank's buffers, and is counted in its new place") {
  World world = offload_world({1, 1}, 1, true);
  const auto use_of = [&](const Offload& offload) {
    world.setup.offload = offload;
    MemoryUse use;
    check_ranks(world, text_of(offload), [&](WorldRank& rank) {
      rank.load();
      use = rank.optimizer->memory();
      return std::string();
    });
    return use;
  };
  const auto bytes = [](const MemoryUse& use, MemoryClass kind) {
    return use.now[static_cast<std::size_t>(kind)];
  };
  const std::int64_t all = odd_layout().padded_numel() * 4;
  const MemoryUse none = use_of({});
  CHECK(bytes(none, MemoryClass::master) == all);
  CHECK(none.offloaded_host + none.offloaded_file == 0);
  const MemoryUse whole = use_of(offload(1, 1000));
  CHECK(bytes(whole, MemoryClass::master) == 0);
  CHECK(bytes(whole, MemoryClass::state) == 0);
  CHECK(whole.offloaded_host == 3 * all);
  const MemoryUse half = use_of(offload(0.5, 1000));
  CHECK(bytes(half, MemoryClass::master) + half.offloaded_host / 3 == all);
  CHECK(bytes(half, MemoryClass::state) == 2 * bytes(half, MemoryClass::master));
  const MemoryUse file = use_of(offload(1, 1000, OffloadPlace::file));
  CHECK(file.offloaded_host == 3 * 1000 * 4);  // three slots of three buffers
  CHECK(file.offloaded_file >= 3 * all);
  CHECK(use_of(offload(1, 1000, OffloadPlace::file, OffloadOrder::flat, false)).offloaded_host ==
        3 * 1000 * 4);
}

TEST_CASE("offload: gradients are offloaded in whole pages, and counted in their new place") {
  World world = offload_world({1, 1}, 1, true);
  const std::int64_t all = odd_layout().padded_numel() * 4;
  for (const double fraction : {0.0, 0.01, 0.5, 1.0}) {
    for (const OffloadPlace place : places) {
      MemoryUse use[2];
      for (const bool grads : {false, true}) {
        world.setup.offload = offload(fraction, 1000, place, OffloadOrder::flat, true, grads);
        check_ranks(world, text_of(world.setup.offload), [&](WorldRank& rank) {
          rank.load();
          use[grads ? 1 : 0] = rank.optimizer->memory();
          return std::string();
        });
      }
      const auto kind = static_cast<std::size_t>(MemoryClass::grad_sum);
      const std::int64_t gone = use[0].now[kind] - use[1].now[kind];
      CHECK(use[0].now[kind] == all);
      CHECK(use[0].peak[kind] - use[1].peak[kind] == gone);
      const bool file = place == OffloadPlace::file && fraction > 0;
      CHECK(use[1].offloaded_file - use[0].offloaded_file == (file ? gone : 0));
      CHECK(use[1].offloaded_host - use[0].offloaded_host == (file ? 0 : gone));
      const std::int64_t page = grad_page_numel() * 4;
      const auto wanted =
          static_cast<std::int64_t>(fraction * static_cast<double>(odd_layout().numel())) * 4;
      CHECK(gone >= wanted);  // with the padding between tensors
      CHECK(gone <= wanted + all - odd_layout().numel() * 4 + page);
    }
  }
}

TEST_CASE("offload: gradients read in place by other ranks cannot be offloaded") {
  World world = offload_world({1, 2}, 0, false);
  world.setup.windows = Windows::on;
  world.setup.offload = offload(0.5, 1000, OffloadPlace::host, OffloadOrder::flat, true, true);
  run_grid(world.grid, [&](const GridPlace& place) {
    WorldRank rank(world, place);
    expect_error(
        ErrorCode::invalid_argument, [&] { rank.load(); },
        "in stage 0 with windows on 2 ranks (the other ranks read it in place)");
  });
}

TEST_CASE("offload: invalid fractions and chunks, and a missing folder, are errors") {
  const std::vector<std::pair<Offload, std::string>> refused = {
      {offload(-0.1, 10), "fraction"},
      {offload(1.0000001, 10), "fraction"},
      {offload(std::numeric_limits<double>::quiet_NaN(), 10), "fraction"},
      {offload(0.5, 0), "chunk"},
      {offload(0, -1), "chunk"},
  };
  const World world = offload_world({1, 1}, 1, false);
  run_grid(world.grid, [&](const GridPlace& place) {
    for (const auto& one : refused) {
      WorldRank rank(world, place);
      rank.setup.offload = one.first;
      expect_error(
          ErrorCode::invalid_argument, [&] { rank.load(); }, one.second);
    }
    WorldRank rank(world, place);
    rank.setup.offload = offload(0.5, 10, OffloadPlace::file);
    rank.setup.offload.folder = "/no/such/folder";
    for (const bool grads : {false, true}) {
      rank.setup.offload.grads = grads;
      expect_error(
          ErrorCode::io, [&] { rank.load(); }, "/no/such/folder");
    }
  });
}

}  // namespace offload_test
