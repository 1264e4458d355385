// zeroproof trace --json against the optimizer, its communicator and its ledger.

#include <doctest.h>

#include <bit>
#include <map>

#include "common/comm/threads.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "verification/tools/plan/predict/memory_model.hpp"
#include "verification/tools/plan/predict/traffic_model.hpp"
#include "verification/tools/trace/trace.hpp"
#include "verification/tools/trace/trace_values.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;
using Values = nlohmann::json;

TraceSettings settings_of_case(int stage, int world) {
  TraceSettings settings;
  settings.stage = stage;
  settings.world_size = world;
  settings.micro_batches = 5;
  return settings;
}

const Values& phase_of(const Values& step, const std::string& name) {
  for (const Values& phase : step.at("phases")) {
    if (phase.at("phase") == name) return phase;
  }
  throw std::logic_error("there is no phase " + name);
}

/// As a rank of the trace has it, with its layered model in stage 3.
template <class Use>
void with_shape(const StepTrace& trace, const Use& use) {
  ThreadWorld world(trace.settings.world_size);
  run_ranks(world, [&](Communicator& comm) {
    OptimizerSetup setup = traced_setup(trace.settings, trace.model, trace.shards);
    setup.comm = &comm;
    TracedGrads leaves(
        trace.model, trace.settings, 1, 0, [](std::int64_t) {}, [](const TracedVisit&) {});
    use(comm.rank(), predicted_step(setup, leaves.layers()));
  });
}

}  // namespace

TEST_CASE("trace JSON: no differences, for every stage, number of ranks, rule and dtype") {
  const DType dtypes[] = {DType::bf16, DType::fp16, DType::fp32};
  for (int stage = 0; stage <= 3; ++stage) {
    for (int world = 1; world <= most_traced_ranks; ++world) {
      TraceSettings settings = settings_of_case(stage, world);
      settings.rule =
          update_rules[static_cast<std::size_t>(stage + world) % update_rules.size()].rule;
      settings.param_dtype = dtypes[(stage + world) % 3];
      settings.overflow_step = world % 3;
      if (world == 3) settings.clip_group = "*.weight";
      if (world == 4) settings.bucket_numel = 2048;
      CAPTURE(stage);
      CAPTURE(world);
      const Values trace = Values::parse(trace_json(trace_step(settings)));
      CHECK(trace.at("differences").empty());
      CHECK(trace.at("values_of") == "reference");
    }
  }
}

TEST_CASE("trace: 8-bit parameters show each master's amax, scale, code and decoded value") {
  for (const ScaleRecipe recipe :
       {ScaleRecipe::current, ScaleRecipe::delayed, ScaleRecipe::blockwise, ScaleRecipe::mxfp8}) {
    TraceSettings settings = settings_of_case(2, 2);
    settings.param_dtype = recipe == ScaleRecipe::delayed ? DType::e5m2 : DType::e4m3;
    settings.scaling = scaling_of(recipe);
    settings.scaling.history = 3;
    settings.scaling.columnwise = true;
    CAPTURE(name(recipe));
    const StepTrace traced = trace_step(settings);
    const Values trace = Values::parse(trace_json(traced));
    CHECK(trace.at("settings").at("scale_recipe") == name(recipe));
    for (const Values& step : trace.at("steps")) {
      const Values& cast = step.at("phases").at(6);
      REQUIRE(cast.at("phase") == "cast");
      std::size_t seen = 0;
      for (const Values& rank : cast.at("ranks")) {
        const Values &after = rank.at("after"), &codes = after.at("param_shard");
        const Values& masters =
            step.at("phases").at(5).at("ranks").at(rank.at("rank").get<std::size_t>());
        CHECK(after.contains("amax_history") == (recipe == ScaleRecipe::delayed));
        CHECK(after.contains("column_shard") == (recipe == ScaleRecipe::mxfp8));
        std::size_t at = 0;
        for (const Values& way : cast.at("ways")) {
          if (way.at("rank") != rank.at("rank")) continue;
          const auto block = way.at("block").get<std::size_t>();
          const auto number = [&](const char* id) {
            return after.at(id).at("values").at(block).get<float>();
          };
          const auto bits = [](float value) {
            return bits_text(std::bit_cast<std::uint32_t>(value), DType::fp32);
          };
          CHECK(codes.at("parameters").at(at) == way.at("parameter"));
          CHECK(codes.at("bits").at(at) == way.at("code"));
          const Values& master = masters.at("after").at("master").at("values").at(at);
          CHECK(way.at("scaled") == bits(master.get<float>() * number("param_scale")));
          CHECK(way.at("read") ==
                bits(codes.at("values").at(at).get<float>() * number("param_scale_inv")));
          ++at;
          ++seen;
        }
        CHECK(at == codes.at("parameters").size());
      }
      CHECK(seen == 16);
    }
    const std::string text = trace_text(traced, false);
    CHECK(text.find("R24, recipe " + std::string(name(recipe)) + ": blocks embed.weight 0") !=
          std::string::npos);
    CHECK(text.find("x = code * scale_inv") != std::string::npos);
    for (std::size_t line = 0; line < text.size(); line = text.find('\n', line) + 1)
      CHECK(text.find('\n', line) - line <= 100);
  }
}

TEST_CASE("messages are the bytes that are predicted for every phase of every rank") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int world = 2; world <= most_traced_ranks; ++world) {
      CAPTURE(stage);
      CAPTURE(world);
      const StepTrace trace = trace_step(settings_of_case(stage, world));
      const Values json = Values::parse(trace_json(trace));
      with_shape(trace, [&](int rank, const PredictedStep& shape) {
        std::map<std::string, std::int64_t> predicted;
        std::map<std::string, std::int64_t> traced;
        for (const TrafficLine& line : predict_traffic(shape).lines) {
          predicted[std::string(name(line.phase))] += line.sent_bytes;
        }
        for (const Values& phase : json.at("steps").at(1).at("phases")) {
          for (const Values& message : phase.at("messages")) {
            if (message.at("from") != rank) continue;
            traced[phase.at("phase").get<std::string>()] += message.at("bytes").get<std::int64_t>();
          }
        }
        std::erase_if(predicted, [](const auto& entry) { return entry.second == 0; });
        CHECK(traced == predicted);
      });
    }
  }
}

TEST_CASE("memory events end where the prediction does, and each begins where the last one ended") {
  for (int stage = 0; stage <= 3; ++stage) {
    const StepTrace trace = trace_step(settings_of_case(stage, 3));
    const Values json = Values::parse(trace_json(trace));
    with_shape(trace, [&](int rank, const PredictedStep& shape) {
      std::map<std::string, std::int64_t> now;
      for (const Values& step : json.at("steps")) {
        for (const Values& phase : step.at("phases")) {
          for (const Values& event : phase.at("memory")) {
            if (event.at("rank") != rank) continue;
            std::int64_t& bytes = now[event.at("class").get<std::string>()];
            bytes += event.at("change").get<std::int64_t>();
            CHECK(bytes == event.at("bytes").get<std::int64_t>());
          }
        }
      }
      const MemoryUse use = predict_memory(shape);
      for (int c = 0; c < num_memory_classes; ++c) {
        const std::string kind(name(static_cast<MemoryClass>(c)));
        CAPTURE(stage);
        CAPTURE(kind);
        CHECK(now[kind] == use.now[c]);
      }
    });
  }
}

TEST_CASE("the ranks' parts of a reduction give its result") {
  constexpr std::size_t group = 23;  // words of the norm of a clip group: 21 limbs and two counts
  TraceSettings settings = settings_of_case(2, 4);
  settings.overflow_step = 1;
  settings.clip_group = "*.weight";
  const Values json = Values::parse(trace_json(trace_step(settings)));
  const Values& flags = phase_of(json.at("steps").at(0), "unscale").at("reductions").at(0);
  CHECK(flags.at("parts").size() == 4);
  for (const Values& part : flags.at("parts"))
    CHECK(part.at("values").at(0) == (part.at("rank") == 3 ? 1 : 0));
  CHECK(flags.at("result").at("values").at(0) == 1);

  const Values& norm = phase_of(json.at("steps").at(1), "norm");
  std::vector<std::uint64_t> sum(2 * group);
  for (const Values& part : norm.at("reductions").at(0).at("parts")) {
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += part.at("values").at(i).get<std::uint64_t>();
  }
  for (std::size_t i = 0; i < sum.size(); ++i) {
    if (i % group + 1 >= group - 2) continue;  // the last limb and the counts stay
    sum[i + 1] += sum[i] >> 32;
    sum[i] &= 0xFFFFFFFFU;
  }
  CHECK(Values(sum) == norm.at("reductions").at(0).at("result").at("values"));
  CHECK(norm.at("chunks").size() == 5);
  CHECK(phase_of(Values::parse(trace_json(trace_step(settings_of_case(0, 2)))).at("steps").at(0),
                 "norm")
            .at("reductions")
            .empty());
}

TEST_CASE(
    "a step that overflows is skipped: the scale is halved, t stays, and the next step finds the "
    "same "
    "state") {
  TraceSettings settings = settings_of_case(1, 2);
  settings.steps = 4;
  settings.overflow_step = 2;
  const Values json = Values::parse(trace_json(trace_step(settings)));
  std::vector<int> t, scale;
  for (const Values& step : json.at("steps")) {
    t.push_back(step.at("t"));
    scale.push_back(step.at("log2_loss_scale"));
    CHECK(step.at("skipped") == (step.at("step") == 2));
    CHECK(phase_of(step, "norm").at("entered") == (step.at("step") != 2));
  }
  CHECK(t == std::vector<int>{1, 2, 2, 3});
  CHECK(scale == std::vector<int>{10, 10, 9, 9});
  const auto update = [&](std::size_t step, const char* side) {
    return phase_of(json.at("steps").at(step), "update").at("ranks").at(1).at(side).at("master");
  };
  CHECK(update(0, "after") == update(2, "before"));
  CHECK(update(2, "after") == update(3, "before"));
  CHECK(update(2, "before") != update(2, "after"));
}

TEST_CASE(
    "a difference between the sides is named: step, rank, phase, buffer and parameter or word") {
  StepTrace trace = trace_step(settings_of_case(1, 2));
  for (TracedBuffer& buffer : trace.production[1].steps[1].buffers) {
    if (buffer.id == BufferId::exp_avg) buffer.bytes[5] ^= std::byte{1};
    if (buffer.id == BufferId::step_scalars) buffer.bytes[4] ^= std::byte{1};
  }
  const Values found = Values::parse(trace_json(trace)).at("differences");
  REQUIRE(found.size() == 2);
  CHECK(found.at(0).at("phase") == "prepare");
  CHECK(found.at(0).at("word") == "beta1");
  CHECK(found.at(1).at("step") == 2);
  CHECK(found.at(1).at("rank") == 1);
  CHECK(found.at(1).at("buffer") == "exp_avg");
  CHECK(found.at(1).at("parameter") == 11);  // block.bias[1], the second element that rank 1 owns
  CHECK(found.at(1).at("got") != found.at(1).at("want"));
}

TEST_CASE("trace: with a fault the text names the first difference, or that there is none") {
  StepTrace trace = trace_step(settings_of_case(1, 2));
  trace.settings.fault = "invented";
  const std::string none = trace_text(trace, false);
  CHECK(none.find("invented.") != std::string::npos);
  CHECK(none.find("No buffer differs") != std::string::npos);
  for (TracedBuffer& buffer : trace.production[1].steps[0].buffers) {
    // A replica that differs from those of the other ranks, beside shards with fewer rows.
    if (buffer.id == BufferId::param_full || buffer.id == BufferId::exp_avg)
      buffer.bytes[2] ^= std::byte{1};
  }
  for (TracedBuffer& buffer : trace.production[1].steps[1].before) {
    if (buffer.id == BufferId::param_full) buffer.bytes[2] ^= std::byte{1};
  }
  const std::string text = trace_text(trace, false);
  CHECK(text.find("step 1, update, rank 1, exp_avg") != std::string::npos);
  CHECK(text.find("block.bias[0]: 0x") != std::string::npos);
  CHECK(text.find("; 2 in all.") != std::string::npos);
  CHECK(widest(text) <= 100);
}

TEST_CASE("--json writes the trace, with any other flags") {
  const TemporaryFolder folder;
  const CliResult result =
      run_cli("trace --world 3 --dtype fp16 --json " + quoted(folder.file("t.json")) +
              " --timeline " + quoted(folder.file("time.json")));
  CHECK(result.exit_code == 0);
  CHECK(result.out.ends_with("written: " + folder.file("t.json") +
                             "\nwritten: " + folder.file("time.json") + "\n"));
  TraceSettings settings;
  settings.world_size = 3;
  settings.param_dtype = DType::fp16;
  CHECK(read_file(folder.file("t.json")).find("zeroproof-trace/1") != std::string::npos);
  const auto leaves = [](const std::string& text) {
    return Values::parse(text).at("steps").at(0).at("leaves");
  };
  CHECK(leaves(read_file(folder.file("t.json"))) == leaves(trace_json(trace_step(settings))));
  CHECK(Values::parse(read_file(folder.file("time.json"))).contains("traceEvents"));
}
