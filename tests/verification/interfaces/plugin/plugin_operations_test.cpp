// The operations of plug-ins, and their README, which documents the operands of each call.

#include <doctest.h>

#include "tests/verification/cli/cli_support.hpp"
#include "verification/interfaces/plugin/operations.hpp"
#include "verification/interfaces/plugin/wire.hpp"
#include "verification/ops/op_case.hpp"

namespace plugin_operations_test {

using namespace zeroproof;
using namespace zeroproof::verification;

TEST_CASE("plug-in operations: all exist and are described") {
  const std::string text =
      tests::read_file(tests::source_folder() + "/verification/interfaces/plugin/README.md");
  const auto described = [&](const std::string& word) {
    return text.find("`" + word + "`") != std::string::npos;
  };
  for (const std::string& name : plugin_operations()) {
    CAPTURE(name);
    const Op* op = find_op(name);
    REQUIRE(op != nullptr);
    CHECK(described(name));
    CHECK(op->operands.size() <= most_plugin_operands);
    for (const Operand& operand : op->operands) {
      CAPTURE(operand.name);
      CHECK(described(operand.name));
      CHECK(operand.name.size() < sizeof(WireOperand::name));
    }
    if (!op->settings) {
      CHECK(op->variants.size() == 1);  // a call has no inputs besides its operands
      continue;
    }
    for (int variant = 0; variant < static_cast<int>(op->variants.size()); ++variant) {
      CallShape shape;
      shape.variant = variant;
      const std::vector<OpSetting> settings = op->settings(OpCall(*op, shape));
      CHECK(settings.size() <= most_plugin_settings);
      for (const OpSetting& setting : settings) {
        CAPTURE(setting.name);
        CHECK(described(setting.name));
        CHECK(setting.name.size() < sizeof(TransportSetting::name));
      }
    }
  }
}

TEST_CASE("plug-in operations: bf16 parameters in place, by bits, in another order, and wrong") {
  const auto verify = [](const std::string& library, const std::string& flags) {
    return tests::run_cli("verify 'op/*_update_bf16/plugin/narrow/fill:training' --plugin " +
                          tests::quoted(tests::build_folder() + "/plugins/" + library + ".so") +
                          " --second-seed 2 " + flags);
  };
  const tests::CliResult bits = verify("narrow", "");
  CAPTURE(bits.out);
  CHECK(bits.exit_code == 0);
  CHECK(bits.out.find("3 pass, 0 fail") != std::string::npos);

  const tests::CliResult strict = verify("narrow_fused", "");
  CHECK(strict.exit_code == 1);
  CHECK(strict.out.find("0 pass, 3 fail") != std::string::npos);
  CHECK(strict.out.find("within the bound of any legal order") != std::string::npos);
  const tests::CliResult legal = verify("narrow_fused", "--accept any-order");
  CAPTURE(legal.out);
  CHECK(legal.exit_code == 0);
  CHECK(legal.out.find("of its bound") != std::string::npos);

  for (const char* wrong : {"narrow_truncated", "narrow_moments", "narrow_decay"}) {
    CAPTURE(wrong);
    CHECK(verify(wrong, "").out.find("0 pass, 3 fail") != std::string::npos);
    const tests::CliResult beyond = verify(wrong, "--accept any-order");
    CAPTURE(beyond.out);
    CHECK(beyond.exit_code == 1);
    CHECK(beyond.out.find("0 pass, 3 fail") != std::string::npos);
    CHECK(beyond.out.find("first at  master[") != std::string::npos);
    CHECK(beyond.out.find("in no legal order: ") != std::string::npos);
  }
}

namespace {

tests::CliResult verify_muon(const std::string& library, const std::string& fill,
                             const std::string& flags) {
  return tests::run_cli("verify 'op/newton_schulz/plugin/muon/fill:" + fill + "' --plugin " +
                        tests::quoted(tests::build_folder() + "/plugins/" + library + ".so") +
                        " --second-seed 2 " + flags);
}

}  // namespace

TEST_CASE(
    "plug-in operations: Newton-Schulz by bits, in another order, and with one wrong element") {
  const tests::CliResult bits = verify_muon("muon", "training", "");
  CAPTURE(bits.out);
  CHECK(bits.exit_code == 0);
  CHECK(bits.out.find("1 pass, 0 fail") != std::string::npos);

  const tests::CliResult legal = verify_muon("muon_in_order", "training", "--accept any-order");
  CAPTURE(legal.out);
  CHECK(legal.exit_code == 0);
  CHECK(legal.out.find(" by bound, 0 by class, 0 not at all") != std::string::npos);

  const tests::CliResult wrong = verify_muon("muon_last_element", "training", "--accept any-order");
  CAPTURE(wrong.out);
  CHECK(wrong.exit_code == 1);
  CHECK(wrong.out.find("in no legal order: ") != std::string::npos);
}

TEST_CASE(
    "nightly: plug-in operations: Newton-Schulz in legal forms with every fill, and wrong ones") {
  for (const char* legal : {"muon_in_order", "muon_kept"}) {
    CAPTURE(legal);
    const tests::CliResult result = verify_muon(legal, "*", "--accept any-order");
    CAPTURE(result.out);
    CHECK(result.exit_code == 0);
    CHECK(result.out.find("7 pass, 0 fail") != std::string::npos);
  }
  for (const char* wrong : {"muon_block_twice", "muon_without_square"}) {
    CAPTURE(wrong);
    const tests::CliResult result = verify_muon(wrong, "exact-sum", "--accept any-order");
    CAPTURE(result.out);
    CHECK(result.exit_code == 1);
    CHECK(result.out.find("in no legal order: ") != std::string::npos);
  }
}

TEST_CASE("plug-in operations: powers of beta in fp32 pass where they are accepted") {
  const auto verify = [](const std::string& flags) {
    return tests::run_cli("verify op/adamw_update/plugin/theirs/fill:training --plugin " +
                          tests::quoted(tests::build_folder() + "/plugins/powers.so") +
                          " --second-seed 2 --accept any-order" + flags);
  };
  const tests::CliResult strict = verify("");
  CHECK(strict.exit_code == 1);
  CHECK(strict.out.find("as if 1 - beta^t were computed from a power in fp32") !=
        std::string::npos);
  const tests::CliResult accepted = verify(",fp32-powers");
  CAPTURE(accepted.out);
  CHECK(accepted.exit_code == 0);
  CHECK(accepted.out.find("against any legal order, with powers of beta in fp32") !=
        std::string::npos);
  CHECK(accepted.out.find(" by powers of beta in fp32, ") != std::string::npos);
}

}  // namespace plugin_operations_test
