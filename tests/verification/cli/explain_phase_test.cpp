// zeroproof explain of phases: their formulas, also for an operation of the same name.

#include <doctest.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "tests/verification/cli/cli_support.hpp"
#include "verification/cli/explain/explain_text.hpp"
#include "verification/cli/program/contract_text.hpp"
#include "verification/ops/op.hpp"

namespace explain_phase_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

}  // namespace

TEST_CASE("explain phase: shows its results, and the formulas of the contract") {
  const auto says = [](const std::string& phase, const std::string& part) {
    CHECK_MESSAGE(run_cli("explain " + phase).out.find(part) != std::string::npos, phase, ": ",
                  part);
  };
  says("reduce", "makes       G = tree sum of the M leaves (R11), fp32 [R6]\n");
  says("reduce", "sum[i] = left[i] + right[i]");
  says("reduce", "    widen_bf16, widen_fp16, widen_e4m3, widen_e5m2\n");
  says("unscale", "unscaled_grad[i] = grad_sum[i] * inv_scale");
  says("norm", "halving tree of R12");
  says("norm", "adds the exact square of every");
  says("norm", "else sqrt of\n               the sum rounded once to fp64");
  says("clip", "grad[i] = unscaled_grad[i] * clip_coef");
  says("clip", "s = grad_norm + 1e-6");
  says("update", "exp_avg    = a1 + a2\n");
  says("gather", "makes       param_full on every rank, bytes");
  for (const Phase phase : all_phases) {
    const std::string text = run_cli("explain " + std::string(name(phase))).out;
    CAPTURE(text);
    CHECK(text.starts_with("phase " + std::string(name(phase)) + "\n"));
    CHECK(text.find("[R6]\n") != std::string::npos);
    const std::size_t formulas = text.find("  formulas, from common/contracts:\n");
    CHECK((formulas == std::string::npos) == (phase == Phase::gather));
    for (const Op& op : all_ops()) {
      if (std::find(op.phases.begin(), op.phases.end(), phase) == op.phases.end() ||
          op.type.empty())
        continue;
      CHECK_MESSAGE(text.find(op.name, formulas) != std::string::npos, op.name);
    }
  }
}

TEST_CASE(
    "explain: names are unique, except phases with an operation of the same name: both are shown") {
  std::map<std::string, int> meanings;
  const auto count = [&](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    ++meanings[text];
  };
  for (const Op& op : all_ops()) count(op.name);
  for (const Phase phase : all_phases) count(std::string(name(phase)));
  for (const Fault& fault : fault_catalogue()) count(std::string(fault.id));
  for (const Passage& rule : rules()) count(rule.name);
  for (const Passage& label : labels()) count(label.name);
  for (const std::string& dialect : dialect_names()) count(dialect);
  for (const char* word : {"lbfgs", "dialects", "errata", "stage0", "stage1", "stage2", "stage3"})
    count(word);
  std::vector<std::string> twice;
  for (const auto& [name, times] : meanings) {
    if (times > 1) twice.push_back(name);
  }
  CHECK(twice == std::vector<std::string>{"clip", "unscale"});
  for (const std::string& name : twice) {
    const std::string text = run_cli("explain " + name).out;
    CAPTURE(text);
    const std::size_t operation = text.find("\noperation " + name + "\n");
    REQUIRE(operation != std::string::npos);
    CHECK(text.find("  formulas, from") < operation);
    CHECK(text.find("  sources     reference/", operation) != std::string::npos);
    CHECK(text.find("faults planted") == text.rfind("faults planted"));  // printed once
  }
}

}  // namespace explain_phase_test
