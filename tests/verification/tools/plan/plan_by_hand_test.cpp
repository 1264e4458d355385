// Plans of models so small, or so even, that their figures can be computed by hand.

#include <doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "verification/tools/plan/counts.hpp"
#include "verification/tools/plan/plan.hpp"
#include "verification/tools/plan/predict/traffic_model.hpp"
#include "verification/tools/plan/report.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

PlannedModel one_tensor(std::int64_t numel) {
  return {"a model", {{{"weight", {numel}}, -1}}, true};
}

PlanSettings settings_for(const std::string& grid) {
  PlanSettings settings;
  settings.grid = planned_grid(grid, 0);
  return settings;
}

}  // namespace

TEST_CASE("stages of one tensor, by hand") {
  // 8 chunks of 1024 in buckets of 4: a rank of 4 owns one chunk of each.
  PlanSettings settings = settings_for("4x1x1");
  settings.bucket_numel = 4096;
  const Plan plan = make_plan(one_tensor(8192), settings);
  const auto peak = [&](std::size_t stage, MemoryClass kind) {
    return plan.stages[stage].most[static_cast<std::size_t>(kind)];
  };
  CHECK(peak(0, MemoryClass::master) == 4 * 8192);
  CHECK(peak(1, MemoryClass::master) == 4 * 2048);
  CHECK(peak(1, MemoryClass::state) == 8 * 2048);
  CHECK(peak(1, MemoryClass::param_full) == 2 * 8192);
  CHECK(peak(3, MemoryClass::param_full) == 2 * 8192);  // one unit
  CHECK(peak(1, MemoryClass::grad_nodes) == 4 * 8192);  // one leaf
  CHECK(peak(2, MemoryClass::grad_nodes) == 4 * 2048);  // leaves are added as they arrive
  CHECK(plan.stages[1].papers.total() == 4.0 * 8192 + 12.0 * 8192 / 4);
  CHECK(plan.stages[3].papers.total() == 16.0 * 8192 / 4);
  const StepTraffic& traffic = plan.stages[1].largest.traffic;
  for (const TrafficLine& line : traffic.lines) {
    if (line.what == "nodes") CHECK(line.sent_bytes == 4 * (8192 - 2048));
    if (line.what == "nodes") CHECK(line.messages == 2 * 3);
    if (line.what == "parameters") CHECK(line.sent_bytes == 2 * 2048 * 3);
    if (line.what == "norm") CHECK(line.sent_bytes == 8 * 23 * 3);
  }
  CHECK(traffic.lines.size() == 5);  // and the digest of the scalars, and found_inf
  const StepTime& time = plan.stages[1].time;
  // A handful of fp64 operations on either side, each off by half a unit in the last place.
  constexpr double few_roundings = 16 * 0x1p-53;
  CHECK(time.gather_us == doctest::Approx(6 * 5 + 2 * 2048 * 3 / 360e3).epsilon(few_roundings));
  CHECK(time.update_us == doctest::Approx((4 + 24 + 2) * 2048 / 4300e3).epsilon(few_roundings));
}

TEST_CASE("every clip group has a norm of 23 words, and they travel in one call") {
  PlanSettings settings = settings_for("4x1x1");
  settings.bucket_numel = 4096;
  settings.stages = {1};
  settings.clip_groups = 3;
  const StagePlan stage = make_plan(one_tensor(8192), settings).stages.front();
  int norms = 0;
  for (const TrafficLine& line : stage.largest.traffic.lines) {
    if (line.what != "norm") continue;
    ++norms;
    CHECK(line.sent_bytes == 3 * 8 * 23 * 3);
    CHECK(line.calls == 1);
  }
  CHECK(norms == 1);
}

TEST_CASE(
    "windows of one tensor, by hand: no nodes or parameters travel, and the parameters are one "
    "copy") {
  PlanSettings settings = settings_for("4x1x1");
  settings.bucket_numel = 4096;
  settings.stages = {1};
  settings.windows = Windows::params;
  const StagePlan stage = make_plan(one_tensor(8192), settings).stages.front();
  const auto at = [](MemoryClass kind) { return static_cast<std::size_t>(kind); };
  CHECK(stage.most[at(MemoryClass::grad_nodes)] == 4 * 8192);  // the one leaf
  CHECK(stage.most[at(MemoryClass::comm_buffer)] == 0);
  CHECK(stage.most[at(MemoryClass::param_full)] == 2 * 8192);
  CHECK(stage.least[at(MemoryClass::param_full)] == 0);
  CHECK(stage.largest.data_rank == 0);
  CHECK(stage.most[at(MemoryClass::param_shard)] == 0);
  CHECK(stage.largest.traffic.lines.size() == 3);  // digest of the scalars, found_inf, norm
  constexpr double few_roundings = 16 * 0x1p-53;
  CHECK(stage.time.reduce_us == doctest::Approx(4 * 3 * 2048 / 4300e3).epsilon(few_roundings));
  CHECK(stage.time.gather_us == 0);
  settings.windows = Windows::on;
  const Plan on = make_plan(one_tensor(8192), settings);
  CHECK(on.stages.front().least[at(MemoryClass::param_full)] == 2 * 8192);
  CHECK(on.stages.front().time.gather_us ==
        doctest::Approx(2 * 3 * 2048 / 4300e3).epsilon(few_roundings));
  CHECK(plan_text(on, {}, false).find("\nwindows on: ranks") != std::string::npos);
  CHECK(nlohmann::json::parse(plan_json(on)).at("settings").at("windows") == "on");
}

TEST_CASE(
    "gradients by formula: (W - 1) / W of the vector, and half of that for every 16-bit leaf that "
    "travels by "
    "itself") {
  constexpr std::int64_t numel = 64 * 1024;
  for (const Space space : {Space::host, Space::device}) {
    for (const int world : {2, 4, 8}) {
      for (const int micro_steps : {1, 2, 8}) {
        CAPTURE(world);
        CAPTURE(micro_steps);
        PlanSettings settings = settings_for(std::to_string(world) + "x1x1");
        settings.space = space;
        settings.bucket_numel = 16 * 1024;
        settings.micro_batches = std::int64_t{world} * micro_steps;
        settings.grad_dtype = DType::bf16;
        const std::int64_t share = 4 * numel / world * (world - 1);  // of the vector in fp32
        const auto sent = [&](int stage, MicroBatchOrder order, std::string_view what) {
          settings.stages = {stage};
          settings.order = order;
          std::int64_t bytes = 0;
          const Plan plan = make_plan(one_tensor(numel), settings);
          for (const TrafficLine& line : plan.stages.front().largest.traffic.lines) {
            if (line.what == what) bytes += line.sent_bytes;
          }
          return bytes;
        };
        for (const int stage : {0, 1}) {
          CHECK(sent(stage, MicroBatchOrder::contiguous, "nodes") ==
                (micro_steps == 1 ? share / 2 : share));
          CHECK(sent(stage, MicroBatchOrder::strided, "nodes") == micro_steps * share / 2);
        }
        for (const int stage : {2, 3})
          CHECK(sent(stage, MicroBatchOrder::strided, "leaves") == micro_steps * share / 2);
        CHECK(sent(0, MicroBatchOrder::contiguous, "sums") == share);
        CHECK(sent(2, MicroBatchOrder::strided, "parameters") == share / 2);
      }
    }
  }
}

TEST_CASE(
    "devices of one tensor, by hand: words of an enqueued step, and no scalars over the host") {
  PlanSettings settings = settings_for("4x1x1");
  settings.bucket_numel = 4096;
  settings.stages = {1};
  const StagePlan on_host = make_plan(one_tensor(8192), settings).stages.front();
  settings.space = Space::device;
  const Plan plan = make_plan(one_tensor(8192), settings);
  const StagePlan& stage = plan.stages.front();
  CHECK(stage.most == on_host.most);  // a model on the device needs no copies of leaves
  CHECK(stage.largest.traffic.lines.size() == on_host.largest.traffic.lines.size() - 1);
  CHECK(stage.largest.traffic.lines[1].what == "found_inf, digests");
  CHECK(stage.largest.traffic.lines[1].sent_bytes == 8 * 3 * 3);
  CHECK(plan_text(plan, {}, false).find("\ndevices: steps") != std::string::npos);
  CHECK(nlohmann::json::parse(plan_json(plan)).at("settings").at("space") == "device");
}

TEST_CASE("cost model: reports where messages dominate, and counts long units as buckets") {
  PlanSettings settings = settings_for("8x1x1");
  const Plan small = make_plan(load_model("byte_gpt"), settings);
  const std::string text = plan_text(small, {}, false);
  CAPTURE(text);
  CHECK(text.find("  warning\n  latency dominates stages 0 (") != std::string::npos);
  CHECK(text.find("messages that long") != std::string::npos);
  const StepTime& time = small.stages[1].time;
  double messages = 0;
  for (const TrafficLine& line : small.stages[1].largest.traffic.lines)
    messages += static_cast<double>(line.messages);
  CHECK(time.latency_us == messages * 5);
  // Without a start cost of messages there is no warning.
  settings.machine.alpha_us = 0;
  CHECK(plan_text(make_plan(load_model("byte_gpt"), settings), {}, false).find("warning") ==
        std::string::npos);
  // A model of one unit: 64 buckets of it in stage 1, and the same number in stage 3, for each of
  // its two gathers.
  settings = settings_for("8x1x1");
  settings.stages = {1, 3};
  const Plan large = make_plan(one_tensor(64 * settings.bucket_numel), settings);
  const auto line_of = [&](std::size_t stage, const char* what) {
    for (const TrafficLine& line : large.stages[stage].largest.traffic.lines) {
      if (line.what == what) return line;
    }
    return TrafficLine{};
  };
  const TrafficLine units = line_of(1, "units");
  const std::int64_t buckets = 64 * 7;
  CHECK(line_of(0, "parameters").messages == buckets);
  CHECK(units.messages == units.calls * 7);
  double others = 0;
  for (const TrafficLine& line : large.stages[1].largest.traffic.lines) {
    if (line.what != "units") others += static_cast<double>(line.messages);
  }
  CHECK(large.stages[1].time.latency_us ==
        5 * (others + static_cast<double>(units.calls * buckets)));
  CHECK(plan_text(large, {}, false).find("--bucket 3600384") != std::string::npos);
}

TEST_CASE("figures in circulation for 175e9 parameters are reproduced, and judged") {
  PlanSettings settings = settings_for("8x1x1");
  settings.stages = {1};
  settings.bucket_numel = 1 << 30;
  const Plan plan = make_plan(one_tensor(175'000'000'000), settings);
  const std::vector<Count> claims = circulating_counts(plan);
  CHECK(claims[0].bytes == 700e9);
  CHECK(claims[1].bytes == 1400e9);
  CHECK(claims[2].bytes == 2100e9);
  CHECK(claims[3].bytes == 350e9);
  CHECK(claims[1].right);  // of fp32 training
  CHECK(claims[2].right);
  CHECK(std::count_if(claims.begin(), claims.end(), [](const Count& c) { return c.right; }) == 2);
  CHECK(plan.stages[0].papers.total() == 4 * 175e9 + 12 * 175e9 / 8);
  const std::vector<Count> deepspeed = deepspeed_counts(plan);
  CHECK(deepspeed[0].bytes == 2 * 175e9 + 18 * 175e9 / 8);
  CHECK(deepspeed[1].bytes == 4 * 175e9 + 16 * 175e9 / 8);
  CHECK(deepspeed[0].right);
  CHECK_FALSE(deepspeed[1].right);
  CHECK(deepspeed[2].right);
}

TEST_CASE("the bytes of a count add up to its formula") {
  const Plan plan = make_plan(one_tensor(1000), settings_for("4x1x1"));
  const auto sum = [](const std::string& text) {  // of the numbers that are separate words
    std::istringstream words(text);
    int all = 0;
    for (std::string word; words >> word;) {
      const std::string digits = word.substr(0, word.find_first_not_of("0123456789"));
      const std::string rest = word.substr(digits.size());
      if (!digits.empty() && (rest.empty() || rest == "," || rest == ";")) all += std::stoi(digits);
    }
    return all;
  };
  const auto check = [&](const std::vector<Count>& counts, const std::vector<int>& sums) {
    REQUIRE(counts.size() == sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      CAPTURE(counts[i].formula);
      CHECK(sum(counts[i].counts) == sums[i]);
    }
  };
  check(zero_paper_counts(plan), {16, 16, 16, 16});
  check(deepspeed_counts(plan), {2 + 18, 4 + 16, 4 + 18});
  check(megatron_counts(plan), {20, 4 + 16, 18, 6 + 12, 16, 8 + 8});
  check(circulating_counts(plan), {4, 8, 12, 2, 2, 4 + 4, 4 + 4});
}
