// zeroproof explain: its output fits a terminal, and is the text of the contract.

#include <doctest.h>

#include <algorithm>
#include <sstream>

#include "common/contracts/update_rule.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "verification/cli/program/contract_text.hpp"
#include "verification/cli/program/document_text.hpp"
#include "verification/cli/program/errata_text.hpp"
#include "verification/ops/op.hpp"

namespace explain_test {

namespace {

using namespace zeroproof::tests;
using namespace zeroproof::verification;

}  // namespace

TEST_CASE("explain: every operation and phase fits 80 columns, without colour in a pipe") {
  const CliResult all = run_cli("explain");
  CHECK(all.exit_code == 0);
  CHECK(widest(all.out) <= 80);
  CHECK(all.out.find("...") == std::string::npos);  // no sentence is cut
  std::vector<std::string> names = {"prepare", "reduce", "unscale", "norm",
                                    "clip",    "update", "cast",    "gather"};
  for (const Op& op : all_ops()) {
    const bool there = all.out.find("\n  " + op.name + " ") != std::string::npos ||
                       all.out.find("\n  " + op.name + "\n") != std::string::npos;
    CHECK_MESSAGE(there, op.name);
    names.push_back(op.name);
  }
  for (const std::string& name : names) {
    CAPTURE(name);
    for (const char* all : {"", " --all"}) {
      const CliResult one = run_cli("explain " + name + all);
      CHECK(one.exit_code == 0);
      CHECK(one.err.empty());
      CHECK(widest(one.out) <= 80);
      CHECK(one.out.find('\033') == std::string::npos);
      CHECK((one.out.find("\n  --all ") == std::string::npos) == (all[0] != '\0'));
    }
  }
}

TEST_CASE("explain: L-BFGS, which is no operation, is explained too") {
  const CliResult text = run_cli("explain lbfgs");
  CHECK(text.exit_code == 0);
  CHECK(widest(text.out) <= 80);
  for (const char* part : {"One rank of L-BFGS.", "reference/lbfgs/lbfgs.cpp, cuda/lbfgs/lbfgs.cpp",
                           "class       bitwise", "rosenbrock/failed-search",
                           "zeroproof verify 'lbfgs/*'", "(112)", "lbfgs-dot-of-own-shard"}) {
    CHECK_MESSAGE(text.out.find(part) != std::string::npos, part);
  }
  CHECK(run_cli("explain").out.find("\n  lbfgs ") != std::string::npos);
  CHECK(run_cli("explain update --all").out.find("lbfgs-") == std::string::npos);
  CHECK(run_cli("explain lbgfs").err.find("did you mean lbfgs?") != std::string::npos);
}

TEST_CASE("explain: update rules by state, operations, settings, recipes and polynomials") {
  for (const zeroproof::RuleTraits& traits : zeroproof::update_rules) {
    const CliResult text = run_cli("explain " + std::string(traits.name));
    CAPTURE(text.out);
    CHECK(text.exit_code == 0);
    CHECK(widest(text.out) <= 80);
    CHECK(text.out.rfind(std::string(traits.name) + "\n", 0) == 0);
    CHECK(text.out.find("optimizer.rule = \"" + std::string(traits.name) + "\"") !=
          std::string::npos);
    CHECK((text.out.find("newton_schulz") != std::string::npos) == traits.matrices);
  }
  const std::string muon = run_cli("explain muon").out;
  for (const char* part :
       {"state       exp_avg, exp_avg_sq\n", "newton_schulz, muon_momentum, muon_step_size,\n",
        "R27, R28", "--recipe muon\n", "muon-heavy-max", "simple              3.4445 -4.775 2.0315",
        "1.875 -1.25 0.375\n                      then the last again"})
    CHECK_MESSAGE(muon.find(part) != std::string::npos, part);
  CHECK(run_cli("explain sgd").out.find("sgd_ema_update") == std::string::npos);
  CHECK(run_cli("explain").out.find("lion, lamb, muon") != std::string::npos);
  expect_refusal("explain moun", "did you mean muon?");
}

TEST_CASE("explain: an operation by its doc block, class, implementations, cases and faults") {
  const std::string text = run_cli("explain adam_update").out;
  for (const char* part :
       {"decay is part of the gradient", "AdamwUpdateFn (referred to above)",
        "one fp32 rounding per operation", "class       bitwise", "phase       update",
        "common/contracts/adam.hpp", "reference/update/adam.cpp", "cuda/host/update/adam.cpp",
        "cuda/device/kernels/update/adam.cu", "zeroproof verify 'op/adam_update/*'",
        "zeroproof verify adam_update --plugin FILE.so",
        "python3 -m zproof verify FILE.py:FUNCTION --op adam_update",
        "zeroproof gen adam_update -o CALL"}) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, part);
  }
  const std::string all = run_cli("explain adam_update --all").out;
  for (const char* part :
       {"inputs      ", "typical amsgrad", "tests/reference/update/adam_test.cpp", "papers/adam.md",
        "decay-after-update"}) {
    CHECK_MESSAGE(all.find(part) != std::string::npos, part);
    CHECK_MESSAGE(text.find(part) == std::string::npos, part);
  }
  CHECK(std::ranges::count(run_cli("explain adamw_update").out, '\n') <= 48);  // one screen
  CHECK(all.find("double-unscale") == std::string::npos);  // a fault of another phase
  CHECK(run_cli("explain maximal_nodes").out.find("judge yours") == std::string::npos);
  expect_refusal("explain R12 --all", "leave it out");
  expect_refusal("explain --all", "without a name");
  CHECK(run_cli("explain maximal_nodes").out.find("cuda/device") == std::string::npos);

  for (const std::string rule : {"adam", "sgd", "lion"}) {
    const std::string narrow = run_cli("explain " + rule + "_update_bf16").out;
    CAPTURE(narrow);
    for (const std::string& part :
         {std::string("bf16 parameter is its own master"),
          std::string("AdamwUpdateBf16Fn (referred to above)"), std::string("to nearest even"),
          std::string("phase       update"), "reference/update/" + rule + ".cpp",
          "cuda/host/update/" + rule + ".cpp", "zeroproof verify 'op/" + rule + "_update_bf16/*'"})
      CHECK_MESSAGE(narrow.find(part) != std::string::npos, part);
  }
  const std::string stored = run_cli("explain R25").out;
  CHECK(stored.find("adamw_update_bf16, adam_update_bf16, sgd_update_bf16") != std::string::npos);
  CHECK(stored.find("lion_update_bf16") != std::string::npos);
  CHECK(run_cli("list op/adamw_update_bf16/host/x86-64/fill:ties")
            .out.find("op/adamw_update_bf16/host/x86-64/fill:ties") != std::string::npos);
}

TEST_CASE("explain: rules from the contract, with the places that cite them") {
  CHECK(rules().size() == 27);  // R1 to R28 without R16, which is not in use
  for (const Passage& rule : rules()) {
    CAPTURE(rule.name);
    const CliResult text = run_cli("explain " + rule.name);
    CHECK(text.exit_code == 0);
    CHECK(widest(text.out) <= 80);
    CHECK(text.out.rfind(rule.name + " " + rule.title + "\n", 0) == 0);
    CHECK_FALSE(rule.lines.empty());
  }
  const std::string norm = run_cli("explain r12").out;
  for (const char* part :
       {"R12 Global norm and clip coefficient", "common/CONTRACT.md", "clip_coef", "operations"})
    CHECK_MESSAGE(norm.find(part) != std::string::npos, part);
  CHECK(run_cli("explain R1").out.find("nearest, ties to even") != std::string::npos);
  const CliResult none = run_cli("explain R99");
  CHECK(none.exit_code == 2);
}

TEST_CASE("explain: labels from the notes") {
  CHECK(labels().size() > 60);
  for (const Passage& label : labels()) {
    CAPTURE(label.name);
    CHECK_FALSE(label.lines.empty());
    CHECK(label.lines.front().find("**[") == std::string::npos);
  }
  for (const char* name : {"ZeRO:local", "[ZeRO:local]", "zero:local"}) {
    const CliResult text = run_cli("explain " + std::string("'") + name + "'");
    CHECK(text.exit_code == 0);
    CHECK(widest(text.out) <= 80);
    CHECK(text.out.find("gathered *before* the update") != std::string::npos);
    CHECK(text.out.find("found_inf.\n") != std::string::npos);  // the whole paragraph
    CHECK(text.out.find("Ownership") == std::string::npos);     // the next section
    CHECK(text.out.find("papers/zero.md") != std::string::npos);
  }
  const std::string table =
      run_cli("explain ZeRO:memory").out;  // the label is a line of its own above it
  CHECK(table.find("| 3 | and parameters") != std::string::npos);
  CHECK(table.find("Elements a rank sends") == std::string::npos);
}

TEST_CASE("explain: errata from their table, and as a list") {
  REQUIRE(errata().size() > 50);
  const std::string all = run_cli("explain errata").out;
  CHECK(widest(all) <= 80);
  int number = 0;
  for (const Erratum& erratum : errata()) {
    CAPTURE(erratum.number);
    CHECK(erratum.number == ++number);
    CHECK_FALSE(erratum.section.empty());
    CHECK_FALSE(erratum.shown_by.empty());
    CHECK(all.find("\n  " + std::to_string(erratum.number) + " ") != std::string::npos);
    for (std::size_t at = 0; (at = erratum.shown_by.find("fault `", at)) != std::string::npos;) {
      at += std::string("fault `").size();
      const std::string id = erratum.shown_by.substr(at, erratum.shown_by.find('`', at) - at);
      CHECK_MESSAGE(run_cli("explain " + id).exit_code == 0, id);
    }
  }
  const CliResult one = run_cli("explain erratum 46");
  CHECK(one.exit_code == 0);
  CHECK(widest(one.out) <= 80);
  for (const char* part : {"Sharding and sums", "count of real elements", "never updated",
                           "shard-from-unpadded-count"})
    CHECK_MESSAGE(one.out.find(part) != std::string::npos, part);
  CHECK(run_cli("explain erratum46").out == one.out);
  for (const char* none : {"erratum", "erratum 0", "erratum 999", "erratum x"})
    CHECK_MESSAGE(run_cli("explain " + std::string(none)).exit_code == 2, none);
}

TEST_CASE("explain: figures of errata equal those of the plan they name") {
  std::istringstream plan(run_cli("plan byte_gpt_tiny --grid 8x1x1 --micro-batches 64").out);
  std::vector<std::string> messages;
  std::vector<std::string> bytes;
  for (std::string line, word; std::getline(plan, line);) {
    std::istringstream words(line);
    if (!line.starts_with("  sum ")) continue;
    words >> word >> messages.emplace_back() >> bytes.emplace_back();
  }
  REQUIRE(bytes.size() == 4);
  CHECK(errata().at(52).finding.find(bytes[2] + " bytes of a rank against " + bytes[1]) !=
        std::string::npos);
  CHECK(errata().at(53).finding.find(messages[0] + ", " + messages[1] + ", " + messages[2] +
                                     " and " + messages[3] + " messages") != std::string::npos);
}

TEST_CASE("explain: faults and stages") {
  const CliResult fault = run_cli("explain double-unscale");
  CHECK(fault.exit_code == 0);
  for (const char* part : {"class", "place", "must be", "zeroproof-faults faults double-unscale"})
    CHECK_MESSAGE(fault.out.find(part) != std::string::npos, part);
  for (const std::string stage : {"0", "1", "2", "3"}) {
    const CliResult text = run_cli("explain stage" + stage);
    CHECK(text.exit_code == 0);
    CHECK(widest(text.out) <= 80);
    CHECK(text.out == run_cli("explain stage " + stage).out);
  }
  const std::string two = run_cli("explain stage2").out;
  CHECK(two.find("sharded     gradients, master weights, moments") != std::string::npos);
  CHECK(two.find("reduce: leaves, by all_to_all") != std::string::npos);
  CHECK(run_cli("explain stage3").out.find("units, by all_gather") != std::string::npos);
  CHECK(run_cli("explain stage4").exit_code == 2);
}

TEST_CASE("explain: passages of documents") {
  CHECK(cites("as R12 says", "R12"));
  CHECK_FALSE(cites("as R12 says", "R1"));
  CHECK_FALSE(cites("AR1", "R1"));
  CHECK(cites("R1, R2", "R2"));
  CHECK(cites("see [ZeRO:nodes].", "[ZeRO:nodes]"));
  CHECK(filled({"aa bb", "cc", "", "    x = y"}, 9, " ") == " aa bb cc\n\n     x =\n     y\n");
  CHECK(filled({"aa bb", "cc", "", "    x = y"}, 12, " ") == " aa bb cc\n\n     x = y\n");
  CHECK(filled({"one", "two", "| a |", "three"}, 20, "") == "one two\n| a |\nthree\n");
}

TEST_CASE("explain: a near miss suggests names, in the form of every error") {
  const CliResult near = run_cli("explain _update_bf");
  CHECK(near.exit_code == 2);
  CHECK(near.out.empty());
  CHECK(near.err.find("did you mean adamw_update_bf16 or adam_update_bf16 or sgd_update_bf16 or "
                      "lion_update_bf16?") != std::string::npos);
  const CliResult typo = run_cli("explain clip_ceof");
  CHECK(typo.err.find("clip_coef") != std::string::npos);
  CHECK(run_cli("explain ''").exit_code == 0);
}

TEST_CASE("explain: doc blocks") {
  CHECK(doc_block("NoSuchFn").empty());
  CHECK(doc_block("CastToFp16Fn") == doc_block("CastToBf16Fn"));  // one block for both
  CHECK(doc_block("ClipFn").front().find("unscaled_grad[i] * clip_coef") != std::string::npos);
  CHECK(referred_types({"as AdamwUpdateFn and AdamwUpdateFn,", "then ClipFn."}) ==
        std::vector<std::string>{"AdamwUpdateFn", "ClipFn"});
  CHECK(wrapped({"Order    aaaa bbbb cccc", "         dddd"}, 20, "") ==
        "Order    aaaa bbbb\n         cccc dddd\n");
  CHECK(wrapped({"one two three", "", "  x"}, 8, " ") == " one two\n three\n\n   x\n");
  const std::vector<std::string> equations = {"           a = b * c;   d = e + f",
                                              "           g = h"};
  CHECK(wrapped(equations, 28, "") ==
        "           a = b * c;\n           d = e + f\n           g = h\n");
  CHECK(wrapped({"unbreakable_word"}, 8, "") == "unbreakable_word\n");
}

}  // namespace explain_test
