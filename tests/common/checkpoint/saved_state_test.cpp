// A state is saved in one distribution and read in another: the same elements on every rank, layout
// and stage.

#include <doctest.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "common/checkpoint/checkpoint_saver.hpp"
#include "common/checkpoint/checkpoint_state.hpp"
#include "tests/common/checkpoint/saving.hpp"
#include "tests/common/io/small_checkpoint.hpp"
#include "tests/support/complaint.hpp"
#include "tests/support/temporary_folder.hpp"

namespace saved_state_test {

using namespace zeroproof;
using namespace zeroproof::tests;
using zeroproof_test::complaint;

namespace {

/// Number of elements of a rank that differ from the saved ones.
std::int64_t wrong_elements(const CheckpointState& source, HeldState& here, int salt) {
  std::int64_t wrong = 0;
  for (const BufferId id : saved_ids) {
    for (const Piece& piece : here.setup().layout->pieces(here.ranges())) {
      // In parts that end inside of rows.
      for (std::int64_t begin = 0; begin < piece.numel; begin += 1021) {
        const Piece part = piece.part(begin, 1021);
        std::vector<float> values(part.numel, -1.0F);
        source.read(id, part.global_begin, values);
        for (std::int64_t i = 0; i < part.numel; ++i) {
          const float expected = held_value(id, here.undistributed(part, i), salt);
          wrong += values[i] == expected ? 0 : 1;
        }
      }
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("saved state: every element, from one distribution to another") {
  // Every distribution saves once, and is read in five others; all pairs are in the slow test.
  const std::vector<Held> places = many_places();
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  std::atomic<std::int64_t> wrong = 0;
  for (std::size_t from = 0; from < places.size(); ++from) {
    const std::string path = folder.file(std::to_string(from));
    save_held(path, places[from], static_cast<int>(from % 4));
    const CheckpointReader reader(CheckpointRoot(path), 41);
    for (std::size_t i = 0; i < 5; ++i) {
      const Held& to = places[(from * 3 + i * 13 + 1) % places.size()];
      CAPTURE(to_string(places[from]));
      CAPTURE(to_string(to));
      run_grid(to.grid, [&](const GridPlace& place) {
        HeldState here(to, place, held_values(9));
        const CheckpointState source(reader, here.setup(), held_layout());
        wrong += wrong_elements(source, here, static_cast<int>(from % 4));
      });
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("slow: saved state: all pairs of distributions") {
  const std::vector<Held> places = many_places();
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  std::atomic<std::int64_t> wrong = 0;
  for (std::size_t from = 0; from < places.size(); ++from) {
    const std::string path = folder.file(std::to_string(from));
    save_held(path, places[from], 1);
    const CheckpointReader reader(CheckpointRoot(path), 41);
    for (const Held& to : places) {
      CAPTURE(to_string(places[from]));
      CAPTURE(to_string(to));
      run_grid(to.grid, [&](const GridPlace& place) {
        HeldState here(to, place, held_values(9));
        const CheckpointState source(reader, here.setup(), held_layout());
        wrong += wrong_elements(source, here, 1);
      });
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE(
    "saved state: the same files on any ranks hold the same elements, NaNs the canonical one") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const HeldBits bits = [](BufferId id, std::int64_t place) {
    if (place % 5 == 1)
      return 0xff800000u | static_cast<std::uint32_t>(place);  // a NaN with a payload, or infinity
    if (place % 5 == 2) return 0x80000000u;
    return held_values()(id, place);
  };
  save_held(folder.file("a"), {{1, 3, 1, 1}}, bits);
  const CheckpointReader reader(CheckpointRoot(folder.file("a")), 41);
  const FlatLayout& layout = held_layout();
  std::int64_t nans = 0, zeros = 0;
  for (std::size_t t = 0; t < layout.tensors().size(); ++t) {
    const TensorSlot& slot = layout.tensors()[t];
    std::vector<float> values(slot.numel);
    reader.read("exp_avg", static_cast<std::int64_t>(t), 0, values);
    for (std::int64_t e = 0; e < slot.numel; ++e) {
      std::uint32_t expected = bits(BufferId::exp_avg, slot.begin + e);
      if ((expected & 0x7fffffffu) > 0x7f800000u) {
        expected = 0x7fffffffu;
        ++nans;
      }
      zeros += expected == 0x80000000u ? 1 : 0;
      CHECK(std::bit_cast<std::uint32_t>(values[e]) == expected);
    }
  }
  CHECK(nans > 1000);
  CHECK(zeros > 1000);
}

TEST_CASE("saved state: counters are restored") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const Held held{{2, 2, 2, 1}, LayoutKind::megatron, 2};
  run_grid(held.grid, [&](const GridPlace& place) {
    HeldState state(held, place, held_values());
    state.setup().missing_grad = MissingGrad::skip;
    state.applied = 12345678901;
    state.scaler = {-3, 1999, 0};
    for (std::size_t i = 0; i < held_params().size(); ++i) state.tensor_steps.push_back(i * i + 1);
    CheckpointSaver saver(folder.file("a"), *place.all, 0, SaveMode::synchronous);
    saver.save(state, state.setup(), held_layout(), held_content(7));
  });
  const CheckpointReader reader(CheckpointRoot(folder.file("a")), 7);
  CHECK(reader.manifest().contract == "1");
  CHECK(reader.manifest().run == held_run);
  CHECK(reader.manifest().about.at("note").get<std::string>() == "step 7");
  run_grid({1, 1, 1, 1}, [&](const GridPlace& place) {
    HeldState here({}, place, held_values());
    here.setup().missing_grad = MissingGrad::skip;
    const CheckpointState source(reader, here.setup(), held_layout());
    CHECK(source.applied_steps() == 12345678901);
    CHECK(source.scaler() == LossScalerState{-3, 1999, 0});
    CHECK(source.tensor_steps() == std::vector<std::uint64_t>{1, 2, 5, 10, 17, 26, 37, 50});
    CHECK(source.has(BufferId::exp_avg_sq));
    CHECK_FALSE(source.has(BufferId::max_exp_avg_sq));
    CHECK_FALSE(source.has(BufferId::param_shard));
  });
}

TEST_CASE("saved state: a model, a rule or a policy that does not fit is rejected, and named") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  save_held(folder.file("a"), {{1, 2, 1, 1}}, 0);
  const CheckpointReader reader(CheckpointRoot(folder.file("a")), 41);
  const auto refusal = [&](std::vector<ParamSpec> params,
                           const std::function<void(OptimizerSetup&)>& change) {
    std::string text;
    run_grid({1, 1, 1, 1}, [&](const GridPlace& place) {
      HeldState here({}, place, held_values());
      const FlatLayout layout(params);
      here.setup().layout = &layout;
      change(here.setup());
      text = complaint([&] { const CheckpointState source(reader, here.setup(), layout); });
    });
    return text;
  };
  const auto keep = [](OptimizerSetup&) {};
  const auto says = [](const std::string& text, const std::vector<std::string>& parts) {
    CAPTURE(text);
    for (const std::string& part : parts) {
      CAPTURE(part);
      CHECK(zeroproof_test::has(text, part));
    }
  };
  CHECK(refusal(held_params(), keep).empty());
  std::vector<ParamSpec> params = held_params();
  params[3].name = "down";
  params[5].name = "up";
  says(refusal(params, keep),
       {"belongs to another model", "its tensor 3 is 'up'", "here it is 'down'"});
  params = held_params();
  std::swap(params[0].shape[0], params[0].shape[1]);
  says(refusal(params, keep), {"'embedding' has shape [37, 9]", "and here [9, 37]"});
  params = held_params();
  params[4].shape = {1};  // the same number of elements, another shape
  says(refusal(params, keep), {"'temperature' has shape []", "and here [1]"});
  params = held_params();
  params.pop_back();
  says(refusal(params, keep), {"it has 8 tensors, and here there are 7"});
  params = held_params();
  params.push_back({"more", {2}});
  says(refusal(params, keep), {"it has 8 tensors, and here there are 9"});
  says(refusal(held_params(), [](OptimizerSetup& setup) { setup.hyper.amsgrad = true; }),
       {"has no max_exp_avg_sq", "update rule of the run that wrote it"});
  says(refusal(held_params(), [](OptimizerSetup& setup) { setup.hyper.rule = UpdateRule::lion; }),
       {"has exp_avg_sq, which this rule does not keep"});
  says(refusal(held_params(), [](OptimizerSetup& setup) { setup.hyper.rule = UpdateRule::sgd; }),
       {"has exp_avg, which this rule does not keep"});
  says(
      refusal(held_params(), [](OptimizerSetup& setup) { setup.missing_grad = MissingGrad::skip; }),
      {"counts no steps for every tensor", "missing_grad = skip"});
}

TEST_CASE("saved state: a checkpoint without counters is refused") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  save_small(system_disk(), folder.file("a"), 3, 2);  // a manifest without counters
  const CheckpointReader reader(CheckpointRoot(folder.file("a")), 3);
  const FlatLayout layout({{"embedding", {16, 12}}, {"empty", {0, 7}}, {"head.weight", {12, 33}}});
  OptimizerSetup setup;
  setup.layout = &layout;
  setup.hyper.rule = UpdateRule::lion;
  try {
    const CheckpointState source(reader, setup, layout);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::damaged);
    CHECK(std::string(error.what()).find("has no counters") != std::string::npos);
  }
}

}  // namespace saved_state_test
