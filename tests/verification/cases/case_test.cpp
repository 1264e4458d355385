// Case ids, patterns, verdicts and reports.

#include <doctest.h>

#include <cmath>
#include <limits>

#include "common/base/error.hpp"
#include "tests/support/paths.hpp"
#include "verification/cases/id_pattern.hpp"
#include "verification/cases/suites/selection.hpp"
#include "verification/cases/write_sets.hpp"
#include "verification/compare/judge/verdict.hpp"
#include "verification/training/training_suite.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

Experiment tiny(DType dtype, MasterFormat master = MasterFormat::fp32) {
  RunConfig config = tiny_config();
  config.state_formats.master = master;
  config.text = tests::sample_text();
  return Experiment("byte_gpt_tiny", config, dtype, load_text(config));
}

/// A case without any problem.
Result good_result(const std::string& id = CaseSpec{}.id()) {
  Result result = training_result(*parse_case_id(id));
  TrainingRun& run = *result.training;
  run.tallies = {{Phase::update, BufferId::master, "reference", 100, 0}};
  run.updated_elements = 100;
  run.moved_elements = 90;
  run.clipped_steps = 3;
  run.skipped_steps = 1;
  run.steps = 6;
  run.reference_hash = Digest{1, 2};
  run.candidate_hash = Digest{1, 2};
  return result;
}

Status judged(Result result, const std::optional<Digest>& truth = Digest{1, 2}) {
  judge(result, tiny(DType::fp16), truth, Status::pass, "");
  return result.status;
}

std::string reason_of(Result result) {
  judge(result, tiny(DType::fp16), Digest{1, 2}, Status::pass, "");
  return result.reason;
}

}  // namespace

TEST_CASE("case ids: an id and its case determine each other") {
  VerifyOptions options;
  options.patterns = workload_names();
  const std::vector<std::string> all = select_cases(options).ids();
  CHECK(all.size() >= 72);
  for (const std::string& id : all) {
    const auto parsed = parse_case_id(id);
    REQUIRE(parsed.has_value());
    CHECK(parsed->id() == id);
  }
  CHECK_FALSE(parse_case_id("byte_gpt").has_value());
  CHECK_FALSE(
      parse_case_id("byte_gpt/adamw/host/stage2/self/bf16/lockstep/bucket:4096").has_value());
  CHECK_FALSE(
      parse_case_id("byte_gpt/tiger/host/stage2/self/bf16/lockstep/bucket:4096/omp:1").has_value());
  CHECK_THROWS_AS(parse_case_id("byte_gpt/adamw/host/stage7/self/bf16/lockstep/bucket:4096/omp:1"),
                  Error);
  CHECK_THROWS_AS(parse_case_id("byte_gpt/adamw/host/stage2/self/bf16/lockstep/bucket:1000/omp:1"),
                  Error);
}

TEST_CASE("case patterns: match ids by their parts") {
  const std::string id =
      "byte_gpt_tiny/adamw/host/stage2/threads:4/bf16/lockstep/bucket:4096/omp:1";
  for (const char* pattern : {"*", "byte_gpt_tiny/*", "*stage2*", "threads:4", "*bf1?/*",
                              "byte*omp:1", "stage2/threads"}) {
    CHECK_MESSAGE(matches(pattern, id), pattern);
  }
  for (const char* pattern : {"stage3", "*stage1*", "host", "?", "*omp:2", "byte_gpt_tiny/*/x"}) {
    const bool substring = std::string(pattern) == "host";
    CHECK_MESSAGE(matches(pattern, id) == substring, pattern);
  }
  // The workload, not every id with that prefix.
  for (const CaseSpec& spec : cases_matching({}, "byte_gpt")) CHECK(spec.workload == "byte_gpt");
}

TEST_CASE("case selection: refuses an invalid case before any case runs") {
  VerifyOptions options;
  options.patterns = {
      "byte_gpt_tiny",
      "byte_gpt/adamw/host/stage1/threads:4/bf16/free/bucket:4096/omp:1/sum:native"};
  CHECK_THROWS_AS(select_cases(options), Error);
  options.patterns[1] =
      "byte_gpt/adamw/host/stage1/threads:4/bf16/lockstep/bucket:4096/omp:1/sum:native";
  CHECK(select_cases(options).ids().back() == options.patterns[1]);
}

TEST_CASE("verdicts: runs that prove little are mistrusted, differences fail") {
  CHECK(judged(good_result()) == Status::pass);
  CHECK(judged(good_result(), Digest{9, 9}) == Status::fail);  // not the undistributed trajectory
  Result r = good_result();
  r.training->candidate_hash = Digest{3, 4};
  CHECK(judged(r) == Status::fail);
  r = good_result();
  r.training->tallies.push_back({Phase::clip, BufferId::grad, "reference", 10, 1});
  CHECK(judged(r) == Status::fail);
  r = good_result();
  r.divergence = Divergence{};
  CHECK(judged(r) == Status::fail);
  r = good_result();
  r.training->tallies.clear();
  CHECK(judged(r) == Status::mistrusted);
  r = good_result();
  r.training->moved_elements = 10;  // an optimizer that does not move most weights
  CHECK(judged(r) == Status::mistrusted);
  r = good_result();
  r.training->moved_elements = 50;  // half of them suffices
  CHECK(judged(r) == Status::pass);
  r.training->moved_elements = 49;
  CHECK(judged(r) == Status::mistrusted);
  CHECK(reason_of(r).find("51 % had no gradient") != std::string::npos);
  r.training->nan_elements = 26;
  CHECK(reason_of(r).find("26 % were NaN already; use a later run.overflow_step") !=
        std::string::npos);
  r = good_result();
  r.training->moved_elements = 13;  // of masters in bf16 one in eight suffices
  judge(r, tiny(DType::bf16, MasterFormat::bf16), Digest{1, 2}, Status::pass, "");
  CHECK(r.status == Status::pass);
  r.training->moved_elements = 12;
  judge(r, tiny(DType::bf16, MasterFormat::bf16), Digest{1, 2}, Status::pass, "");
  CHECK(r.reason.starts_with("fewer than an eighth of the master elements moved"));
  r = good_result();
  r.training->updated_elements = r.training->moved_elements = 0;
  CHECK(reason_of(r) == "no step with a finite gradient norm was applied");
  r = good_result();
  r.training->skipped_steps = 3;  // half of 6
  CHECK(judged(r) == Status::pass);
  r.training->skipped_steps = 4;
  CHECK(reason_of(r).starts_with("most steps were skipped: 4 of 6; "));
  r = good_result();
  r.training->steps = 5;  // of 6: the run ended early, so that its later steps were not judged
  CHECK(judged(r) == Status::fail);
  r.training->ended = true;  // by an overflow, as on_nonfinite = error requires
  CHECK(judged(r) == Status::pass);
  r = good_result();
  r.training->clipped_steps = 0;
  CHECK(judged(r) == Status::mistrusted);
  r = good_result();
  r.training->skipped_steps = 0;
  CHECK(judged(r) == Status::mistrusted);
  r = good_result();
  judge(r, tiny(DType::bf16), Digest{1, 2}, Status::hung, "rank 2 did not arrive");
  CHECK(r.status == Status::hung);
  CHECK(r.reason == "rank 2 did not arrive");
}

TEST_CASE("world nccl:N: sets its transport, and the id has no extra part for it") {
  const std::string id = "byte_gpt_tiny/adamw/device/stage1/nccl:3/bf16/lockstep/bucket:4096/omp:1";
  const CaseSpec spec = parse_case_id(id).value();
  CHECK(spec.world == WorldSpec{WorldSpec::Kind::nccl, 3});
  CHECK(spec.world.has_processes());
  CHECK(spec.place.transport == Transport::nccl);
  CHECK(spec.id() == id);
  CHECK(parse_case_id(id + "/transport:nccl").value().id() == id);
  CHECK(parse_world("nccl:3").id() == "nccl:3");
  CHECK_FALSE(parse_world("threads:3").has_processes());
}

TEST_CASE("world threads:N+M: the ranks of each host are in the id") {
  const WorldSpec world = parse_world("threads:1+3");
  CHECK(world.size == 4);
  CHECK(world.hosts == std::vector<int>{1, 3});
  CHECK(world.id() == "threads:1+3");
  CHECK_FALSE(world.has_processes());
  CHECK_FALSE(world == parse_world("threads:4"));
  for (const char* text :
       {"threads:1+", "threads:+1", "threads:1+0", "threads:1+x", "threads:4096+1", "mpi:1+1"})
    CHECK_THROWS_AS(parse_world(text), Error);
}

TEST_CASE("reports: JSON round trip keeps every field") {
  RunReport report;
  Result r =
      good_result("byte_gpt_tiny/adamw/host-fused/stage1/mpi:3/fp16/free/bucket:65536/omp:2");
  r.status = Status::fail;
  r.reason = "a \"quoted\" reason\nwith a line break";
  r.divergence = Divergence{3,
                            Phase::update,
                            2,
                            "master",
                            "differs",
                            5,
                            1029,
                            2047,
                            "a.b",
                            "[1, 2]",
                            "limb 3, of weight 2^-256",
                            "0x0 (0)",
                            "0x1 (1e-45)",
                            "1e-46",
                            7,
                            100,
                            "",
                            "they hold 0",
                            "in no legal order",
                            BrokenMessage{"shards", "all_gather", 3, 1, 2, 640, 5, 17, 63, 62},
                            {}};
  r.training->bytes = {
      {1, {8, 9}, {{"master", {4, 5}}}, {{"shards", "all_gather", {1, 2}, {3, 4}, {5, 6}}}}};
  constexpr std::uint64_t many = std::uint64_t{1} << 33;
  r.training->skips = {{2,
                        37,
                        0x7FFFFFFFU,
                        {{"a \"b\"", 48, {0x7F800000U, 1, 0}}, {"c", 1, {0x7FFFFFFFU, many, 3}}}},
                       {5, 37, 0x7F000000U, {}}};
  r.training->losses = {5.5, std::numeric_limits<double>::quiet_NaN()};
  r.training->reference_losses = {5.5, 0.1};
  Result call;
  call.id = "op/clip/host/x86-64/fill:wide";
  call.suite = "op";
  call.divergence = Divergence{};
  call.divergence->call = "numel 5";
  call.divergence->inputs = {{"grad", "0x1"}, {"another", "0x2"}};
  call.ulps.largest = 3;
  call.judged = JudgedBy{4000, 3, 2, 1, 7};
  call.worst_ratio = std::numeric_limits<double>::quiet_NaN();
  report.results = {r, good_result(), call};
  const std::vector<Result> back = results_from_json(to_json(report));
  REQUIRE(back.size() == 3);
  CHECK(back[0].id == r.id);
  CHECK(back[0].status == Status::fail);
  CHECK(back[0].reason == r.reason);
  REQUIRE(back[0].training.has_value());
  CHECK(back[0].training->candidate_hash == r.training->candidate_hash);
  REQUIRE(back[0].divergence.has_value());
  CHECK(back[0].divergence->last_global_index == 2047);
  CHECK(back[0].divergence->word == "limb 3, of weight 2^-256");
  REQUIRE(back[0].training->bytes.size() == 1);
  const RankBytes& bytes = back[0].training->bytes[0];
  CHECK((bytes.rank == 1 && bytes.peak.measured == 8 && bytes.peak.predicted == 9));
  REQUIRE((bytes.memory.size() == 1 && bytes.sent.size() == 1));
  CHECK((bytes.memory[0].name == "master" && bytes.memory[0].bytes.predicted == 5));
  CHECK((bytes.sent[0].group == "shards" && bytes.sent[0].collective == "all_gather"));
  CHECK((bytes.sent[0].calls.predicted == 2 && bytes.sent[0].messages.measured == 3));
  CHECK(bytes.sent[0].bytes.predicted == 6);
  CHECK(back[0].divergence->candidate_value == "0x1 (1e-45)");
  CHECK(back[0].divergence->hint == "they hold 0");
  CHECK(back[0].divergence->exact_value == "1e-46");
  REQUIRE(back[0].divergence->message.has_value());
  CHECK(describe(*back[0].divergence->message) ==
        "all_gather #3 of shards, from rank 1 to rank 2: byte 17 of 640 was sent as 0x3f and "
        "received as 0x3e; 5 bytes differ");
  CHECK_FALSE(back[2].divergence->message.has_value());
  CHECK(to_html(report, false).find("  message   all_gather #3 of shards, from rank 1 to rank 2") !=
        std::string::npos);
  CHECK(back[0].training->tallies.size() == 1);
  CHECK(back[0].training->tallies[0].compared == 100);
  CHECK(back[0].training->skips == r.training->skips);
  CHECK(back[0].training->reference_losses == r.training->reference_losses);
  REQUIRE(back[0].training->losses.size() == 2);
  CHECK(back[0].training->losses[0] == 5.5);
  CHECK(std::isnan(back[0].training->losses[1]));
  CHECK(back[1].training->skips.empty());
  CHECK_FALSE(back[2].training.has_value());
  CHECK(back[2].divergence->inputs == call.divergence->inputs);
  CHECK(failure_line(back[2]) == failure_line(call));
  CHECK(back[2].ulps.largest == 3);
  REQUIRE(back[2].judged.has_value());
  CHECK(to_string(*back[2].judged) ==
        "4,000 by bits, 3 by bound, 7 by powers of beta in fp32, 2 by class, "
        "1 not at all");
  CHECK_FALSE(back[1].judged.has_value());
  CHECK_FALSE(back[2].worst_ratio == back[2].worst_ratio);
  CHECK(to_json(report).find("\"schema\": \"zeroproof-report/2\"") != std::string::npos);
  CHECK_THROWS_AS(results_from_json("{\"cases\": [{}]}"), Error);
  CHECK_THROWS_AS(results_from_json("not json"), Error);
}

TEST_CASE("exit codes: the worst status determines the code, and no judged case is a failure") {
  const auto code = [](std::initializer_list<Status> statuses, bool strict = false) {
    RunReport report;
    for (const Status status : statuses) {
      report.results.push_back(good_result());
      report.results.back().status = status;
    }
    return exit_code(report, strict);
  };
  CHECK(code({}) == 4);
  CHECK(code({Status::skipped}) == 4);
  CHECK(code({Status::pass, Status::skipped}) == 0);
  CHECK(code({Status::pass, Status::mistrusted}) == 0);
  CHECK(code({Status::pass, Status::mistrusted}, true) == 1);
  CHECK(code({Status::pass, Status::fail}) == 1);
  CHECK(code({Status::fail, Status::hung}) == 5);
  CHECK(code({Status::hung, Status::crashed}) == 6);
  CHECK(code({Status::crashed, Status::error}) == 9);
}

TEST_CASE("text report: tables fit 100 columns, colour is written only on request") {
  RunReport report;
  Result r = good_result(
      "byte_gpt/adamw/host-fused/stage2/threads:4096/fp16/lockstep/bucket:262144/omp:0");
  r.status = Status::pass;
  r.training->tallies = {
      {Phase::gather, BufferId::unscaled_grad, "reference", 9'999'999'999, 0},
      {Phase::gather, BufferId::unscaled_grad, "undistributed", 9'999'999'999, 0}};
  r.training->timing = {10, 10, 1 << 30, 1 << 30, 20};
  report.results = {r};
  report.suites = {&training_suite()};
  report.traces = {{"byte_gpt",
                    "adam-amsgrad-max",
                    DType::fp16,
                    973488,
                    16,
                    64,
                    {{5.5, 1.25, 0.5F, 12, false},
                     {5.4, std::numeric_limits<double>::quiet_NaN(), 1.0F, 20, true}},
                    Digest{1, 2}}};
  const std::string text = to_text(report, {});
  CHECK(text.find('\033') == std::string::npos);
  CHECK(to_text(report, {.colour = true}).find('\033') != std::string::npos);
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    CHECK_MESSAGE(end - begin <= 100, text.substr(begin, end - begin));
    begin = end + 1;
  }
}

TEST_CASE("write sets: no phase after unscale may write the counters of a skipped step") {
  CHECK(may_write(Phase::update, BufferId::applied_steps));
  for (const Phase phase : all_phases) {
    if (phase != Phase::update) CHECK_FALSE(may_write(phase, BufferId::applied_steps));
    if (phase != Phase::update) CHECK_FALSE(may_write(phase, BufferId::master));
    if (phase != Phase::update) CHECK_FALSE(may_write(phase, BufferId::exp_avg));
    if (phase != Phase::gather) CHECK_FALSE(may_write(phase, BufferId::param_full));
    if (phase != Phase::unscale) CHECK_FALSE(may_write(phase, BufferId::loss_scaler));
  }
}

TEST_CASE("rate tables: every step needs a rate, also the steps of a seeded state") {
  const auto refusal = [](std::size_t rates, InitialState state) -> std::string {
    RunConfig config = workload_defaults("byte_gpt_tiny");
    config.steps = 3;
    config.initial_state = state;
    config.schedule.decay = DecayShape::table;
    config.schedule.rates.assign(rates, 1e-3);
    try {
      Experiment("byte_gpt_tiny", config, DType::fp32, load_text(config));
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::config);
      return error.what();
    }
    return {};
  };
  CHECK(refusal(3, InitialState::zero).empty());
  CHECK(refusal(2, InitialState::zero).find("2 rates for 3 steps (") != std::string::npos);
  CHECK(refusal(10, InitialState::seeded).empty());
  CHECK(
      refusal(9, InitialState::seeded).find("9 rates for 3 steps after the 7 of its first state") !=
      std::string::npos);
}
