// The text report: one block for each cause, and exit code 0 only with a pass.

#include <doctest.h>

#include <cstdlib>
#include <limits>

#include "tests/verification/cli/cli_support.hpp"
#include "verification/cases/run_report.hpp"
#include "verification/cases/suites/selection.hpp"
#include "verification/ops/op_suite.hpp"
#include "verification/training/case_run.hpp"

namespace report_text_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

Result failing(const std::string& op, const std::string& isa, const std::string& fill,
               const std::string& buffer) {
  Result result;
  result.suite = "op";
  result.group = op;
  result.side = "host " + isa;
  result.id = "op/" + op + "/host/" + isa + "/fill:" + fill;
  result.exactness = "bitwise";
  result.status = Status::fail;
  Divergence first;
  first.buffer = buffer;
  first.what = "differs from the reference";
  first.shard_index = std::rand();
  first.call = "numel 1";
  result.reason = describe(first);
  result.divergence = first;
  result.compared = 10;
  result.differing = 1;
  result.replay = "zeroproof replay " + result.id;
  return result;
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

RunReport with_status(std::initializer_list<Status> statuses) {
  RunReport report;
  for (const Status status : statuses) {
    Result result;
    result.id = "op/clip/host/x86-64/fill:wide";
    result.status = status;
    report.results.push_back(result);
  }
  return report;
}

}  // namespace

TEST_CASE("text report: repetitions over fills and instruction sets are one block") {
  RunReport report;
  for (const char* isa : {"x86-64", "x86-64-v3"}) {
    for (const char* fill : {"wide", "ties", "training"}) {
      report.results.push_back(failing("adamw_update", isa, fill, "exp_avg"));
    }
  }
  report.results.push_back(
      failing("adamw_update", "x86-64", "special", "master"));             // another cause
  report.results.push_back(failing("clip", "x86-64", "wide", "exp_avg"));  // another kernel
  const std::string text = to_text(report, {});
  CAPTURE(text);
  CHECK(times(text, "\nFAIL ") == 3);
  CHECK(times(text, "FAIL op/adamw_update/host/x86-64/fill:wide\n") == 1);
  CHECK(text.find(
            "  also in   5 more of adamw_update: host x86-64 ties, training; host x86-64-v3 wide, "
            "ties, training\n") != std::string::npos);
  CHECK(times(text, "also in") == 1);
  CHECK(text.find("more that did not pass") == std::string::npos);
}

TEST_CASE(
    "report: any order states how results were judged, in text and HTML, of passes and failures") {
  RunReport report;
  report.suites = {&op_suite()};
  Result& pass = report.results.emplace_back(failing("clip", "x86-64", "wide", "grad"));
  pass.status = Status::pass;
  pass.divergence.reset();
  pass.differing = 0;
  pass.judged = JudgedBy{4000, 3, 2, 1};
  CHECK(
      to_text(report, {}).find("  judged: 4,000 by bits, 3 by bound, 2 by class, 1 not at all\n") !=
      std::string::npos);
  Result& failure = report.results.emplace_back(failing("unscale", "x86-64", "wide", "found_inf"));
  failure.judged = JudgedBy{5, 0, 4, 0, 6};
  const std::string text = to_text(report, {});
  CAPTURE(text);
  CHECK(text.find("  judged    5 by bits, 0 by bound, 6 by powers of beta in fp32, 4 by class, 0 "
                  "not at all\n") != std::string::npos);
  CHECK(
      to_html(report, false)
          .find("<p>Judged: 4,005 by bits, 3 by bound, 6 by powers of beta in fp32, 6 by class, 1 "
                "not at all.</p>") != std::string::npos);
}

TEST_CASE("text report: a failed run compares its losses with those of the reference") {
  RunReport report;
  Result& result = report.results.emplace_back(failing("adamw", "free", "training", "norm_limbs"));
  result.suite = "training";
  result.id = "byte_gpt_tiny/adamw/host-fused/stage1/threads:4/bf16/free/bucket:4096/omp:1";
  result.divergence->call.clear();
  result.divergence->step = 1;
  result.divergence->phase = Phase::norm;
  TrainingRun& run = result.training.emplace();
  run.tallies = {{Phase::unscale, BufferId::found_inf, "reference", 4, 0}};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto text = [&](std::vector<double> losses, std::vector<double> reference) {
    run.losses = std::move(losses);
    run.reference_losses = std::move(reference);
    return to_text(report, {});
  };
  CHECK(text({}, {}).find("losses") == std::string::npos);
  CHECK(text({5.5, 5.25, 5}, {5.5, 5.125, 5.0625})
            .find("  losses    5.5000 -> 5.0000, the reference's 5.5000 -> 5.0625; furthest apart, "
                  "by 0.12, "
                  "in step "
                  "2\n") != std::string::npos);
  CHECK(text({5.5, 5}, {5.5, 5}).find("  losses    the reference's, in all 2 steps\n") !=
        std::string::npos);
  CHECK(text({5.5, nan}, {5.5, 5}).find("  losses    not a number in step 2\n") !=
        std::string::npos);
  CHECK(text({nan, nan}, {nan, nan}).find("losses") == std::string::npos);

  CHECK(text({}, {}).find("in all earlier phases: found_inf") != std::string::npos);
  result.divergence->step = 0;  // the state after a load: no phase has run
  CHECK(text({}, {}).find("earlier phases") == std::string::npos);
}

TEST_CASE("text report: causes beyond the limit are counted case by case") {
  RunReport report;
  for (int op = 0; op < 10; ++op) {
    for (const char* fill : {"wide", "ties"})
      report.results.push_back(failing("op" + std::to_string(op), "x86-64", fill, "out"));
  }
  CHECK(to_text(report, {}).find("... and 4 more that did not pass") != std::string::npos);
}

TEST_CASE("text report: exit code 0 requires a pass") {
  CHECK(exit_code(with_status({Status::pass, Status::mistrusted}), false) == 0);
  CHECK(exit_code(with_status({Status::pass, Status::mistrusted}), true) == 1);
  CHECK(exit_code(with_status({Status::mistrusted}), false) == 4);
  CHECK(exit_code(with_status({Status::mistrusted, Status::skipped}), false) == 4);
  CHECK(exit_code(with_status({Status::mistrusted}), true) == 1);
  CHECK(exit_code(with_status({Status::skipped}), false) == 4);
  CHECK(exit_code(with_status({}), false) == 4);
  CHECK(exit_code(with_status({Status::mistrusted, Status::fail}), false) == 1);
  CHECK(exit_code(with_status({Status::pass, Status::tampered}), false) == 1);
  CHECK(to_text(with_status({Status::mistrusted}), {}).find("nothing was proved") !=
        std::string::npos);
  CHECK(to_text(with_status({Status::pass}), {}).find("nothing was proved") == std::string::npos);
}

TEST_CASE("reports: all of them count passes alone as proved") {
  const TemporaryFolder folder;
  const std::string config = folder.write("calm.toml", "[run]\noverflow_step = 0\n");
  const std::string files = "text,json:" + folder.file("a.json") +
                            ",html:" + folder.file("a.html") + ",junit:" + folder.file("a.xml");
  const auto run = [&](const std::string& dtypes) {
    return run_cli(
        "verify byte_gpt_tiny --world self --stage 1 --recipe adamw --impl host --dtype " + dtypes +
        " --config " + quoted(config) + " --report " + quoted(files));
  };
  const auto has = [](const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, part);
  };
  const CliResult mixed = run("bf16,fp16");  // fp16 has a loss scaler
  CHECK(mixed.exit_code == 0);
  has(mixed.out, "proved: production has the bits of the reference in 1 parallel configuration,\n");
  has(mixed.out, "\n1 pass, 0 fail, 1 mistrusted");
  const auto summary = nlohmann::json::parse(read_file(folder.file("a.json"))).at("summary");
  CHECK(summary.at("pass") == 1);
  CHECK(summary.at("mistrusted") == 1);
  has(read_file(folder.file("a.html")), "<strong>Proved by 1 of 2 cases: ");
  const std::string xml = read_file(folder.file("a.xml"));
  has(xml, "tests=\"2\" failures=\"0\" errors=\"0\"");
  has(xml, " skipped=\"1\">");
  has(xml, "<skipped message=\"mistrusted: the dynamic loss scaler never met");

  const CliResult nothing = run("fp16");
  CHECK(nothing.exit_code == 4);
  CHECK(nothing.out.find("\nproved:") == std::string::npos);
  has(nothing.out, "nothing was proved");
  has(read_file(folder.file("a.html")), "Nothing was proved");
}

TEST_CASE("text report: tables show DIFFER only for values that differ") {
  const auto table = [](const std::string& suite, Status status, std::int64_t compared) {
    RunReport report;
    for (const Suite* one : all_suites()) {
      if (one->name() == suite) report.suites = {one};
    }
    Result& result = report.results.emplace_back();
    result.suite = suite;
    result.group = "clip";
    result.id = suite + "/clip";
    result.status = status;
    result.compared = compared;
    const std::string text = to_text(report, {});
    return text.substr(0, text.find("\n\n", text.find("against")));
  };
  const auto row_has = [](const std::string& text, const std::string& verdict) {
    CAPTURE(text);
    CHECK(text.find("DIFFER") == std::string::npos);
    CHECK(text.find("  " + verdict) != std::string::npos);
  };
  row_has(table("op", Status::error, 0), "error");
  row_has(table("resume", Status::crashed, 0), "crashed");
  row_has(table("lbfgs", Status::hung, 10), "hung");
  row_has(table("op", Status::tampered, 10), "tampered");
  row_has(table("op", Status::fail, 10), "fail");
  row_has(table("op", Status::mistrusted, 10), "mistrusted");
  row_has(table("op", Status::pass, 10), "equal");
  const std::string control = table("controls", Status::error, 0);
  CHECK(control.find("FALSE ALARM") == std::string::npos);
  CHECK(control.find("1 legal differences compared by the harness, 0 false alarms") !=
        std::string::npos);
}

TEST_CASE("text report: the first difference is the first in the order of data, on any rank") {
  const auto at = [](std::int64_t step, Phase phase, const char* buffer, int rank) {
    Divergence d;
    d.step = step;
    d.phase = phase;
    d.buffer = buffer;
    d.rank = rank;
    return d;
  };
  CHECK(earlier(at(1, Phase::update, "exp_avg", 1), at(1, Phase::update, "master", 0)));
  CHECK_FALSE(earlier(at(1, Phase::update, "master", 0), at(1, Phase::update, "exp_avg", 1)));
  CHECK(earlier(at(1, Phase::update, "exp_avg", 0), at(1, Phase::update, "exp_avg", 1)));
  CHECK(earlier(at(1, Phase::unscale, "loss_scaler", 3), at(1, Phase::update, "exp_avg", 0)));
  CHECK(earlier(at(1, Phase::update, "trust_ratio", 1), at(1, Phase::update, "master", 0)));
  CHECK(earlier(at(1, Phase::cast, "amax", 2), at(1, Phase::cast, "param_scale", 1)));
  CHECK(earlier(at(1, Phase::cast, "param_scale_inv", 1), at(1, Phase::cast, "param_shard", 0)));
  CHECK(earlier(at(1, Phase::cast, "param_shard", 1), at(1, Phase::cast, "column_amax", 0)));
  CHECK(earlier(at(1, Phase::reduce, "leaf", 3), at(1, Phase::reduce, "grad_sum", 0)));
  CHECK(earlier(at(1, Phase::gather, "param_full", 3), at(2, Phase::prepare, "step_scalars", 0)));
}

}  // namespace report_text_test
