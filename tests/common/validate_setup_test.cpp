// Setups that both implementations reject.

#include "common/step/validate_setup.hpp"

#include <doctest.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/self.hpp"
#include "common/comm/threads.hpp"

namespace validate_setup_test {

using namespace zeroproof;

namespace {

/// A single rank with a valid setup: an odd tensor, an empty one, one that ends behind a chunk.
struct Rank {
  Rank() {
    setup.layout = &layout;
    setup.shards = &shards;
    setup.comm = self.get();
  }

  FlatLayout layout{{{"a", {37}}, {"nothing", {0, 5}}, {"b", {3, 700}}}};
  ShardMap shards{4096, 1, 2048};
  std::unique_ptr<Communicator> self = make_self_communicator();
  ThreadWorld pair{2};
  std::unique_ptr<Communicator> one_of_two = pair.communicator(0);
  OptimizerSetup setup;
};

using Change = std::function<void(Rank&)>;

/// The error of a changed setup, "" if it is valid.
std::string refusal(const Change& change) {
  Rank rank;
  change(rank);
  try {
    validate_setup(rank.setup);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

void refused(const std::string& problem, const Change& change) {
  const std::string text = refusal(change);
  CHECK_MESSAGE(text.find(problem) != std::string::npos, "refused with: ", text,
                "; expected: ", problem);
}

void taken(const Change& change) { CHECK(refusal(change) == ""); }

/// TP ranks need a norm without chunks, and a placement.
void with_tp(Rank& rank) {
  rank.setup.tp = rank.one_of_two.get();
  rank.setup.hyper.norm = NormForm::exact;
  rank.setup.placement.resize(3);
}

}  // namespace

TEST_CASE("setup: missing or out of range values are rejected") {
  taken([](Rank&) {});
  refused("no layout", [](Rank& r) { r.setup.layout = nullptr; });
  refused("no shard map", [](Rank& r) { r.setup.shards = nullptr; });
  refused("no communicator", [](Rank& r) { r.setup.comm = nullptr; });
  for (const int stage : {-1, 4}) refused("stage is", [&](Rank& r) { r.setup.stage = stage; });
  refused("micro_batches is 0", [](Rank& r) { r.setup.micro_batches = 0; });
  refused("persistent_numel is -1", [](Rank& r) { r.setup.persistent_numel = -1; });
  for (const DType dtype : {DType::u32, DType::fp64, DType::e8m0}) {
    refused("gradients are", [&](Rank& r) { r.setup.grad_dtype = dtype; });
    refused("parameters are", [&](Rank& r) { r.setup.param_dtype = dtype; });
  }
  for (const DType dtype : {DType::e4m3, DType::e5m2}) {
    refused("gradients are", [&](Rank& r) { r.setup.grad_dtype = dtype; });
    taken([&](Rank& r) { r.setup.param_dtype = dtype; });
  }
  for (const DType dtype : {DType::fp16, DType::fp32}) {
    refused("rounded stochastically", [&](Rank& r) {
      r.setup.param_dtype = dtype;
      r.setup.param_rounding = ParamRounding::stochastic;
    });
  }
  taken([](Rank& r) { r.setup.param_rounding = ParamRounding::stochastic; });
}

TEST_CASE("setup: scales of 8-bit parameters") {
  const auto scaled = [](const std::function<void(ParamScaling&)>& change) {
    return [change](Rank& r) {
      r.setup.param_dtype = DType::e4m3;
      change(r.setup.scaling);
    };
  };
  for (const float epsilon : {-1.0F, std::numeric_limits<float>::infinity()}) {
    refused("scaling.epsilon is", scaled([&](ParamScaling& s) { s.epsilon = epsilon; }));
    taken([&](Rank& r) { r.setup.scaling.epsilon = epsilon; });  // bf16 has no scales
  }
  for (const int margin : {-1, 65}) {
    refused("scaling.margin is", scaled([&](ParamScaling& s) { s.margin = margin; }));
  }
  for (const int history : {0, 1025}) {
    refused("scaling.history is", scaled([&](ParamScaling& s) { s.history = history; }));
  }
  const auto columnwise = [&](ScaleRecipe recipe, ScaleBlocks blocks) {
    return scaled([recipe, blocks](ParamScaling& s) {
      s.recipe = recipe;
      s.blocks = blocks;
      s.columnwise = true;
    });
  };
  taken(columnwise(ScaleRecipe::mxfp8, ScaleBlocks::square_128));
  taken(columnwise(ScaleRecipe::blockwise, ScaleBlocks::row_128));
  taken(columnwise(ScaleRecipe::blockwise, ScaleBlocks::square_128));
  taken(columnwise(ScaleRecipe::current, ScaleBlocks::row_128));
  taken(columnwise(ScaleRecipe::delayed, ScaleBlocks::row_128));
  const auto cut = [](Rank& r) {
    with_tp(r);
    r.setup.param_dtype = DType::e4m3;
  };
  refused("without their undistributed matrices", cut);
  refused("there are 2 matrices", [&](Rank& r) {
    cut(r);
    r.setup.matrices.resize(2);
  });
}

TEST_CASE("setup: every tensor is in an existing group") {
  taken([](Rank& r) { r.setup.groups.of_tensor = {0, 0, 0}; });
  refused("2 of 3 tensors", [](Rank& r) { r.setup.groups.of_tensor = {0, 0}; });
  for (const int group : {-1, 1}) {
    refused("param group " + std::to_string(group), [&](Rank& r) {
      r.setup.groups.of_tensor = {0, group, 0};
    });
  }
  taken([](Rank& r) {
    r.setup.groups.rules.resize(1);
    r.setup.groups.of_tensor = {0, 1, 0};
  });
}

TEST_CASE("setup: shard maps of another world or layout, or with holes") {
  refused("is for 2 ranks", [](Rank& r) { r.shards = ShardMap(4096, 2, 2048); });
  refused("covers 5120 elements", [](Rank& r) { r.shards = ShardMap(5120, 1, 2048); });
  refused("without an owner", [](Rank& r) {
    r.shards = ShardMap(4096, 1, {Bucket{{0, 4096}, {{{0, 10}, {11, 4096}}}}});
    r.setup.hyper.norm = NormForm::exact;
  });
}

TEST_CASE("setup: the norm chunk1024 needs whole chunks of the undistributed model") {
  const auto cut_anywhere = [](Rank& r) {
    r.shards =
        ShardMap(4096, 1, {Bucket{{0, 10}, {{{0, 10}}}}, Bucket{{10, 4096}, {{{10, 4096}}}}});
  };
  for (const Change& change : {Change(cut_anywhere), Change(with_tp)}) {
    for (const NormForm form : {NormForm::exact, NormForm::one, NormForm::inf}) {
      taken([&](Rank& r) {
        change(r);
        r.setup.hyper.norm = form;
      });
    }
    refused("the norm is chunk1024", [&](Rank& r) {
      change(r);
      r.setup.hyper.norm = NormForm::chunk1024;
    });
  }
}

TEST_CASE("setup: CP ranks divide the data ranks and are a power of two") {
  for (const int cp : {-2, -1, 0, 3, 16})
    refused("CP ranks for a micro-batch", [&](Rank& r) { r.setup.cp = cp; });
  for (const int cp : {2, 4, 8}) refused("no multiple of", [&](Rank& r) { r.setup.cp = cp; });
  taken([](Rank& r) {
    r.setup.cp = 2;
    r.setup.replicas = r.one_of_two.get();
  });
}

TEST_CASE("setup: a placement for every tensor, with its own rows") {
  taken(with_tp);
  taken([](Rank& r) { r.setup.placement.resize(3); });
  refused("0 placements of 3 tensors on 2 TP ranks", [](Rank& r) {
    with_tp(r);
    r.setup.placement.clear();
  });
  refused("2 placements", [](Rank& r) { r.setup.placement.resize(2); });
  const auto placed = [](std::size_t tensor, const TensorPlacement& place) {
    return [=](Rank& r) {
      r.setup.placement.resize(3);
      r.setup.placement[tensor] = place;
    };
  };
  for (const TensorPlacement& place :
       {TensorPlacement{true, 0, 0, 1}, TensorPlacement{true, 0, 1, 0},
        TensorPlacement{true, 0, 2, 1}, TensorPlacement{true, -1, 1, 1}}) {
    refused("tensor b is placed", placed(2, place));
  }
  taken(placed(1, {true, 0, 0, 0}));  // an empty tensor has no row
}

TEST_CASE("setup: at most 128 gradients in a binned sum, each complete in one instance") {
  const auto binned = [](std::int64_t micro_batches, int cp, bool two_instances) {
    return [=](Rank& r) {
      r.setup.grad_sum = GradSum::binned;
      r.setup.micro_batches = micro_batches;
      r.setup.cp = cp;
      (two_instances ? r.setup.replicas : r.setup.comm) = r.one_of_two.get();
      if (!two_instances) r.shards = ShardMap(4096, 2, 2048);
    };
  };
  for (const int cp : {1, 2}) {
    taken(binned(128, cp, false));
    refused("129 micro-batches are summed in bins", binned(129, cp, false));
  }
  taken(binned(128, 1, true));
  refused("2 CP parts are summed in bins by instances of 1 ranks", binned(1, 2, true));
  taken([&](Rank& r) {
    binned(129, 2, true)(r);
    r.setup.grad_sum = GradSum::tree;
  });
}

TEST_CASE("setup: the rule muon needs its matrices, and settings within R28") {
  const auto muon = [](const Change& change) {
    return [=](Rank& r) {
      r.setup.hyper.rule = UpdateRule::muon;
      r.setup.matrix_tensors = {{}, {true, false, {7}}, {true, true, {6, 1}}};
      change(r);
    };
  };
  taken(muon([](Rank&) {}));
  refused("of 0 tensors whether they are matrices, and the rule is muon",
          muon([](Rank& r) { r.setup.matrix_tensors.clear(); }));
  refused("of 2 tensors whether they are matrices, and the rule is muon",
          muon([](Rank& r) { r.setup.matrix_tensors.pop_back(); }));
  refused("of 3 tensors whether they are matrices, and the rule is lamb",
          muon([](Rank& r) { r.setup.hyper.rule = UpdateRule::lamb; }));
  for (const int steps : {-1, 0, 65})
    refused("muon.steps is " + std::to_string(steps),
            muon([=](Rank& r) { r.setup.hyper.muon.newton_schulz.steps = steps; }));
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()}) {
    refused("muon.eps is", muon([=](Rank& r) { r.setup.hyper.muon.newton_schulz.eps = bad; }));
    refused("muon.scale_factor is", muon([=](Rank& r) { r.setup.hyper.muon.scale_factor = bad; }));
  }
  const auto with_momentum = [&](MomentumFamily family) {
    return muon([=](Rank& r) {
      r.setup.hyper.momentum = 1;
      r.setup.hyper.muon.family = family;
    });
  };
  refused("momentum is 1 with the family ema", with_momentum(MomentumFamily::ema));
  taken(with_momentum(MomentumFamily::heavy_ball));
  refused("muon.eps is 5.87747175e-39",
          muon([](Rank& r) { r.setup.hyper.muon.newton_schulz.eps = 0x1p-127; }));
  taken(muon([](Rank& r) { r.setup.hyper.muon.newton_schulz.eps = 0x1p-126; }));
  // They are settings of this rule alone.
  taken([](Rank& r) { r.setup.hyper.muon.scale_factor = 0; });
}

TEST_CASE("setup: the parts of a matrix cover it") {
  const auto parts = [](std::size_t tensor, const MatrixTensor& matrix) {
    return [=](Rank& r) {
      r.setup.hyper.rule = UpdateRule::muon;
      r.setup.matrix_tensors.resize(3);
      r.setup.matrix_tensors[tensor] = matrix;
    };
  };
  refused("the matrix a has 1 dimensions", parts(0, {true, false, {}}));
  taken(parts(2, {true, false, {1, 2}}));
  taken(parts(2, {true, true, {300, 50}}));
  for (const std::vector<std::int64_t>& widths :
       {std::vector<std::int64_t>{2}, {3, 3}, {0, 3}, {-1, 4}, {1, std::int64_t{1} << 62}}) {
    refused("the parts of the matrix b do not cover its 3 rows", parts(2, {true, false, widths}));
  }
  refused("the parts of the matrix b do not cover its 700 columns", parts(2, {true, true, {3}}));
  // Of a split tensor, those of the undistributed matrix.
  const auto split = [&](std::int64_t rows) {
    return [=](Rank& r) {
      with_tp(r);
      parts(2, {true, false, {2, 4}})(r);
      r.setup.placement[0] = {true, 0, 37, 37};
      r.setup.placement[2] = {false, 1024, 2100, 2100};
      r.setup.matrices = {{0, 1, 37}, {1024, 0, 0}, {1024, rows, 700}};
    };
  };
  taken(split(6));
  refused("the parts of the matrix b do not cover its 7 rows", split(7));
  refused("matrices of the rule muon are split over 2 TP ranks without their undistributed",
          [&](Rank& r) {
            split(6)(r);
            r.setup.matrices.clear();
          });
  refused("exceeds its undistributed matrix", split(2));
}

}  // namespace validate_setup_test
