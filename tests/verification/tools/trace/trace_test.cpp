// zeroproof trace: it prints the optimizers' values, and viewers accept the timeline.

#include <doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "common/comm/threads.hpp"
#include "reference/distributed_optimizer.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "verification/tools/trace/sections.hpp"
#include "verification/tools/trace/trace.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

/// Bits of every parameter in a buffer, over all ranks that have it; copies of a parameter must be
/// equal.
std::map<std::int64_t, std::uint64_t> together(const StepTrace& trace, Phase phase, BufferId id,
                                               std::size_t step = 0) {
  std::map<std::int64_t, std::uint64_t> values;
  for (const TracedRank& rank : trace.reference) {
    for (const TracedBuffer& buffer : rank.steps[step].buffers) {
      if (buffer.phase != phase || buffer.id != id) continue;
      std::int64_t local = 0;
      for (const FlatRange& range : buffer.ranges) {
        for (const std::int64_t element : elements_of(trace.model.layout())) {
          if (element < range.begin || element >= range.end) continue;
          const std::uint64_t bits = buffer.bits(local + element - range.begin);
          const bool same = values.emplace(element, bits).first->second == bits;
          CHECK(same);
        }
        local += range.numel();
      }
    }
  }
  return values;
}

struct SeenBuffer {
  Phase phase;
  BufferId id;
  std::vector<std::byte> bytes;
};

class RecordingObserver final : public StepObserver {
 public:
  std::vector<SeenBuffer> seen;
  void observe(Phase phase, const ExposedBuffer& buffer) override {
    const auto* first = static_cast<const std::byte*>(buffer.view.data);
    seen.push_back({phase, buffer.id, {first, first + buffer.view.num_bytes()}});
  }
};

TraceSettings settings_for(int stage, int world, std::int64_t micro_batches, UpdateRule rule) {
  TraceSettings settings;
  settings.stage = stage;
  settings.world_size = world;
  settings.micro_batches = micro_batches;
  settings.rule = rule;
  return settings;
}

}  // namespace

TEST_CASE("the text of a small trace is the committed one") {
  // zeroproof trace --stage 1 --world 2 --micro-batches 3 --rule sgd --steps 1, with its memory map
  TraceSettings settings = settings_for(1, 2, 3, UpdateRule::sgd);
  settings.steps = 1;
  const StepTrace trace = trace_step(settings);
  CHECK(trace_text(trace, false) + "\n" + memory_map_text(trace) ==
        read_file(source_folder() + "/tests/verification/tools/trace/trace_golden.txt"));
}

TEST_CASE("two runs print the same, in 100 columns, for every stage, rule and number of ranks") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int world = 1; world <= most_traced_ranks; ++world) {
      const UpdateRule rule =
          update_rules[static_cast<std::size_t>(stage + world) % update_rules.size()].rule;
      const TraceSettings settings = settings_for(stage, world, 1 + 5 * world % 7, rule);
      CAPTURE(stage);
      CAPTURE(world);
      const StepTrace first = trace_step(settings);
      const StepTrace second = trace_step(settings);
      CHECK(trace_text(first, false) == trace_text(second, false));
      CHECK(memory_map_text(first) == memory_map_text(second));
      CHECK(widest(trace_text(first, false)) <= 100);
      CHECK(widest(memory_map_text(first)) <= 100);
      CHECK(trace_text(first, false).find('\033') == std::string::npos);
    }
  }
}

TEST_CASE("a clip group has a norm and a coefficient of its own, and words for them") {
  TraceSettings settings;
  const std::string one = trace_text(trace_step(settings), false);
  CHECK(one.find("(others)") == std::string::npos);
  settings.clip_group = "*.weight";
  const std::string two = trace_text(trace_step(settings), false);
  for (const char* word : {"grad_norm (others)", "grad_norm (*.weight)", "clip_coef (others)",
                           "clip_coef (*.weight)", "limb 10 (*.weight)"}) {
    CAPTURE(word);
    CHECK(two.find(word) != std::string::npos);
  }
  CHECK(widest(two) <= 100);
  settings.clip_group = "weight";
  CHECK_THROWS_AS(trace_step(settings), Error);
}

TEST_CASE("values are those of the optimizer's exposed buffers") {
  for (int stage = 0; stage <= 3; ++stage) {
    CAPTURE(stage);
    const StepTrace trace = trace_step(settings_for(stage, 3, 4, UpdateRule::adamw));
    std::vector<std::vector<SeenBuffer>> seen(3);
    ThreadWorld world(3);
    run_ranks(world, [&](Communicator& comm) {
      OptimizerSetup setup = traced_setup(trace.settings, trace.model, trace.shards);
      setup.comm = &comm;
      const auto optimizer = reference::make_distributed_optimizer(setup);
      optimizer->load_state(trace.model.initial_state());
      TracedGrads leaves(
          trace.model, trace.settings, 1, trace.settings.log2_loss_scale, [](std::int64_t) {},
          [](const TracedVisit&) {});
      RecordingObserver observer;
      optimizer->step(leaves, &observer);
      seen[comm.rank()] = observer.seen;
    });
    for (std::size_t rank = 0; rank < 3; ++rank) {
      REQUIRE(trace.reference[rank].steps[0].buffers.size() == seen[rank].size());
      for (std::size_t i = 0; i < seen[rank].size(); ++i) {
        const TracedBuffer& traced = trace.reference[rank].steps[0].buffers[i];
        CHECK(traced.phase == seen[rank][i].phase);
        CHECK(traced.id == seen[rank][i].id);
        CHECK(traced.bytes == seen[rank][i].bytes);
      }
    }
  }
}

TEST_CASE(
    "shards put together are stage 0, production has the reference's bits, and G is the top of the "
    "tree") {
  for (const RuleTraits& traits : update_rules) {
    const UpdateRule rule = traits.rule;
    const StepTrace whole = trace_step(settings_for(0, 1, 5, rule));
    for (int stage = 0; stage <= 3; ++stage) {
      for (int world = 1; world <= most_traced_ranks; ++world) {
        const StepTrace trace = trace_step(settings_for(stage, world, 5, rule));
        for (const TracedBuffer& buffer : whole.reference.front().steps[0].buffers) {
          if (buffer.ranges.empty() || (stage == 3 && buffer.id == BufferId::param_full)) continue;
          const auto values = together(trace, buffer.phase, buffer.id);
          CHECK(values.size() == 16);
          CHECK(values == together(whole, buffer.phase, buffer.id));
        }
        const auto sums = together(trace, Phase::reduce, BufferId::grad_sum);
        for (const auto& entry : sums) {
          const float top = traced_nodes(trace, 0).back().values[entry.first];
          CHECK(std::bit_cast<std::uint32_t>(top) == entry.second);
        }
        StepTrace other = trace;
        other.reference = trace.production;
        CHECK(together(other, Phase::gather, BufferId::param_full) ==
              together(trace, Phase::gather, BufferId::param_full));
      }
    }
  }
}

TEST_CASE("the text has the explanations that a reader needs") {
  const std::string text = trace_text(trace_step(settings_for(2, 4, 4, UpdateRule::adamw)), false);
  for (const char* part : {"R5:",
                           "R11:",
                           "R6, R14:",
                           "R12:",
                           "R8:",
                           "inv_scale",
                           "leaf (0,3), rank 3",
                           "rank 1\n",
                           "(1,1) = (0,2) + (0,3)",
                           "unscaled_grad",
                           "found_inf",
                           "limb 11",
                           "grad_norm",
                           "clip_coef",
                           "exp_avg_sq",
                           "param_shard",
                           "param_full",
                           "head.bias[0]",
                           "before\n",
                           "Step 2 of 2"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
  const std::string idle = trace_text(trace_step(settings_for(1, 4, 2, UpdateRule::adamw)), false);
  CHECK(idle.find("rank 0 has no micro-batch and sends nothing") != std::string::npos);
  CHECK(idle.find("rank 1 sends every owner its part of (0,0)\n") != std::string::npos);
  const std::string map = memory_map_text(trace_step(settings_for(1, 2, 4, UpdateRule::adamw)));
  CHECK(map.find("always   master        ##########......  ..........######") != std::string::npos);
  CHECK(map.find("reduce   grad_nodes    ****************  ****************") != std::string::npos);
  CHECK(map.find("gather   param_full    ****************  ****************") != std::string::npos);
}

TEST_CASE(
    "ranks share a table only while every bit is the same; sharded stacks are shown on their "
    "shards") {
  StepTrace trace = trace_step(settings_for(0, 2, 2, UpdateRule::sgd));
  CHECK(trace_text(trace, false).find("  rank 1\n") == std::string::npos);
  for (TracedBuffer& buffer : trace.reference[1].steps[0].buffers) {
    if (buffer.id == BufferId::master) buffer.bytes[0] ^= std::byte{1};
  }
  CHECK(trace_text(trace, false).find("  rank 1\n") != std::string::npos);
  const std::string map = memory_map_text(trace_step(settings_for(2, 2, 4, UpdateRule::adamw)));
  CHECK(map.find("reduce   grad_nodes    **********......  ..........******") != std::string::npos);
}

TEST_CASE(
    "the timeline: one track of phases and one of collectives per rank and side, nothing "
    "overlaps") {
  const nlohmann::json timeline =
      nlohmann::json::parse(timeline_json(trace_step(settings_for(2, 3, 4, UpdateRule::adamw))));
  std::map<std::pair<int, int>, std::string> titles;
  std::map<std::pair<int, int>, std::vector<nlohmann::json>> tracks;
  for (const nlohmann::json& event : timeline.at("traceEvents")) {
    const std::pair<int, int> track = {event.at("pid"), event.at("tid")};
    if (event.at("ph") == "M") {
      if (event.at("name") == "thread_name") titles[track] = event.at("args").at("name");
      continue;
    }
    CHECK(event.at("ph") == "X");
    tracks[track].push_back(event);
  }
  CHECK(titles.size() == 12);  // 2 sides, 3 ranks, 2 tracks
  CHECK(tracks.size() == 12);
  for (const auto& entry : tracks) {
    CAPTURE(entry.first.first);
    CAPTURE(entry.first.second);
    REQUIRE(titles.count(entry.first) == 1);
    const bool phases = titles[entry.first].find("phases") != std::string::npos;
    std::int64_t end = 0;
    std::vector<std::string> names;
    for (const nlohmann::json& event : entry.second) {
      const auto begin_ns = std::llround(event.at("ts").get<double>() * 1000);
      const auto length_ns = std::llround(event.at("dur").get<double>() * 1000);
      CHECK(begin_ns >= end);
      CHECK(length_ns >= 0);
      end = begin_ns + length_ns;
      names.push_back(event.at("name"));
    }
    const std::vector<std::string> all = {
        "prepare", "reduce", "unscale", "norm", "clip", "update", "cast", "gather",
        "prepare", "reduce", "unscale", "norm", "clip", "update", "cast", "gather"};
    if (phases) CHECK(names == all);
    if (!phases) CHECK(std::find(names.begin(), names.end(), "all_to_all") != names.end());
  }
}

TEST_CASE("an overflow is skipped: the scale is halved and nothing else changes") {
  TraceSettings settings;
  settings.overflow_step = 1;
  const StepTrace trace = trace_step(settings);
  for (const TracedRank& rank : trace.reference) {
    CHECK(rank.steps[0].skipped);
    CHECK_FALSE(rank.steps[1].skipped);
    CHECK(rank.steps[1].t == 1);
    CHECK(rank.steps[1].log2_loss_scale == settings.log2_loss_scale - 1);
  }
  CHECK(trace_text(trace, false).find("this step is skipped") != std::string::npos);
}

TEST_CASE("the command: files, and one sentence for input that cannot be traced") {
  const TemporaryFolder folder;
  const CliResult written = run_cli("trace --out " + quoted(folder.file("out")));
  CHECK(written.exit_code == 0);
  const StepTrace trace = trace_step({});
  CHECK(read_file(folder.file("out") + "/trace.txt") == trace_text(trace, false));
  CHECK(read_file(folder.file("out") + "/memory_map.txt") == memory_map_text(trace));
  CHECK(nlohmann::json::parse(read_file(folder.file("out") + "/timeline.json"))
            .contains("traceEvents"));
  CHECK(read_file(folder.file("out") + "/trace.json") == trace_json(trace));
  const CliResult printed = run_cli("trace");
  CHECK(printed.out == trace_text(trace, false) + "\n" + memory_map_text(trace));
  const std::string no_file = "--json " + quoted(folder.file("a") + "/b.json/");
  for (const std::string& flags : std::vector<std::string>{"--stage 4",
                                                           "--stage two",
                                                           "--world 0",
                                                           "--world 5",
                                                           "--micro-batches 0",
                                                           "--micro-batches 17",
                                                           "--rule adamm",
                                                           no_file,
                                                           "--out /dev/null/x",
                                                           "--steps 0",
                                                           "--steps 9",
                                                           "--dtype fp8",
                                                           "--columnwise",
                                                           "--scale-recipe current",
                                                           "--dtype e4m3 --scale-recipe mxfp4",
                                                           "--loss-scale 3",
                                                           "--loss-scale 0",
                                                           "--overflow-step 3",
                                                           "--seed x",
                                                           "--bucket 1000"}) {
    CAPTURE(flags);
    const CliResult result = run_cli("trace " + flags);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK(result.err.find("; ") != std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(
      folder.file("a")));  // no file is left if another one cannot be written
}
