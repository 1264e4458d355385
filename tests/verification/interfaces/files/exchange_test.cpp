// zeroproof gen and zeroproof judge: a call in a file, and the results of another program.

#include <doctest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <map>

#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/ops/changed_adamw.hpp"
#include "tests/verification/ops/fp32_powers_adam.hpp"
#include "verification/compare/compare.hpp"
#include "verification/interfaces/files/judged_call.hpp"
#include "verification/tools/identify/dialect.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using namespace zeroproof::tests;

struct Output {
  SafeTensorSpec spec;
  std::vector<std::byte> bytes;
};
using Outputs = std::map<std::string, Output>;

void write(const std::string& path, const Outputs& outputs) {
  std::vector<SafeTensorSpec> specs;
  for (const auto& [name, output] : outputs) specs.push_back(output.spec);
  SafetensorsWriter writer(path, specs);
  for (const auto& [name, output] : outputs) writer.write(output.spec.name, output.bytes);
  writer.finish();
}

Outputs outputs_of(const CallChoice& choice, const OpCall& call) {
  Outputs outputs;
  for (std::size_t k = 0; k < choice.op->operands.size(); ++k) {
    const Operand& operand = choice.op->operands[k];
    if (operand.access == Access::in) continue;
    const TensorView view = call.view(k);
    const auto* bytes = static_cast<const std::byte*>(view.data);
    outputs[operand.name] = {wanted_output(operand, choice), {bytes, bytes + view.num_bytes()}};
  }
  return outputs;
}

float& element(Output& output, std::size_t i) {
  return reinterpret_cast<float*>(output.bytes.data())[i];
}

/// A call in a file, and the correct results.
struct Call {
  TemporaryFolder folder;
  std::string in = folder.file("in.safetensors"), out = folder.file("out.safetensors");
  CallChoice choice;
  Outputs right;

  explicit Call(const CallRequest& request) : choice(choose_call(request)) {
    write_call(choice, in);
    right = outputs_of(choice, reference_results(choice));
  }

  CliResult judged(const Outputs& outputs, const std::string& flags = "") const {
    write(out, outputs);
    return run_cli("judge " + quoted(in) + " " + quoted(out) + " " + flags);
  }
};

}  // namespace

TEST_CASE("judge: correct results of every writable operation pass, one changed bit fails") {
  int operations = 0;
  for (const Op& op : all_ops()) {
    CallRequest request{op.name, std::string(name(op.fills.front())), "13", "7", ""};
    CAPTURE(op.name);
    if (!op.settings && op.variants.size() > 1) {
      CHECK_THROWS_AS(choose_call(request), Error);
      continue;
    }
    const Call call(request);
    write(call.out, call.right);
    const JudgedCall pass = judge_call(call.in, call.out, "");
    CAPTURE(pass.text);
    CHECK(pass.pass);
    Outputs wrong = call.right;
    std::vector<std::byte>& bytes = wrong.begin()->second.bytes;
    const bool bounded =
        op.exactness == Exactness::bounded;  // only a large part of a number is wrong in it
    bytes[bounded ? 6 : 0] ^= std::byte{1};
    write(call.out, wrong);
    CHECK_FALSE(judge_call(call.in, call.out, "").pass);
    ++operations;
  }
  CHECK(operations >= 12);
}

TEST_CASE("gen and judge: command line") {
  const TemporaryFolder folder;
  const std::string in = folder.file("in.safetensors");
  const CliResult written =
      run_cli("gen op/adamw_update/fill:ties --numel 77 --seed 5 --variant 5 -o " + quoted(in));
  CHECK(written.exit_code == 0);
  CHECK(written.out.find("op/adamw_update, fill ties, numel 77, seed 5, variant no decay, factors "
                         "0 and 1 amsgrad") == 0);
  const SafetensorsReader reader = SafetensorsReader::open(in);
  CHECK(reader.metadata().at("setting.amsgrad") == "1");
  CHECK(reader.metadata().at("setting.scalar.step_size") == "0");
  CHECK(reader.metadata().at("outputs").find(
            "{\"name\":\"after.master\",\"dtype\":\"F32\",\"shape\":[77]}") != std::string::npos);
  CHECK(reader.find("before.grad") != nullptr);

  const std::string out = " -o " + quoted(folder.file("x"));
  expect_refusal("gen adamw_updat" + out, "did you mean adamw_update?");
  expect_refusal("gen adamw_update --fill tie" + out, "did you mean ties?");
  expect_refusal("gen adamw_update/fill:ties --fill wide" + out, "two different fills are given");
  expect_refusal("gen adamw_update --numel -1" + out, "--numel is '-1'");
  expect_refusal("gen adamw_update --numel 67108865" + out, "use 0 to 67108864");
  expect_refusal("gen adamw_update --variant 12" + out, "--variant is '12'");
  expect_refusal("gen grad_norm_accumulate" + out,
                 "grad_norm_accumulate cannot be written as a call file");
  expect_refusal("gen adamw_update -o /nowhere/x", "/nowhere");
  CHECK(run_cli("gen adamw_update").exit_code == 2);
}

TEST_CASE("gen and judge: bf16 parameters in place, their rounding and another order") {
  for (const std::string rule : {"adamw", "sgd", "lion"}) {
    CAPTURE(rule);
    const bool sgd = rule == "sgd";
    const std::string moment = sgd ? "momentum_buffer" : "exp_avg";
    const Call call({rule + "_update_bf16", "training", "129", "3", sgd ? "2" : "0"});
    const SafetensorsReader reader = SafetensorsReader::open(call.in);
    CHECK(reader.find("before.master")->dtype == SafeDType::bf16);
    CHECK(reader.find("before.grad")->dtype == SafeDType::bf16);
    CHECK(reader.find("before." + moment)->dtype == SafeDType::f32);
    CHECK(reader.metadata().at("outputs").find(
              "{\"name\":\"after.master\",\"dtype\":\"BF16\",\"shape\":[129]}") !=
          std::string::npos);
    CHECK(call.judged(call.right).exit_code == 0);

    Outputs other = call.right;  // a moment one unit off, as another order makes it
    other[moment].bytes[0] ^= std::byte{1};
    CHECK(call.judged(other).exit_code == 1);
    const CliResult legal = call.judged(other, "--accept any-order");
    CAPTURE(legal.out);
    CHECK(legal.exit_code == 0);

    Outputs rounded = call.right;  // one parameter at a neighbour, as if truncated
    rounded["master"].bytes[2 * 7] ^= std::byte{1};
    const CliResult wrong = call.judged(rounded, "--accept any-order");
    CAPTURE(wrong.out);
    CHECK(wrong.exit_code == 1);
    CHECK(wrong.out.find("after.master is in no legal order in 1 of 129 elements, first [7]") !=
          std::string::npos);
  }
}

TEST_CASE("judge: missing, mistyped, misshapen, extra and differing outputs are distinguished") {
  const Call call({"adamw_update", "training", "129", "3", "0"});
  CHECK(call.judged(call.right).exit_code == 0);
  const auto fails = [&](const char* part, const std::function<void(Outputs&)>& harm) {
    Outputs outputs = call.right;
    harm(outputs);
    const CliResult result = call.judged(outputs);
    CAPTURE(result.out);
    CHECK(result.exit_code == 1);
    CHECK(result.out.find("FAIL op/adamw_update, fill training, numel 129") == 0);
    CHECK(result.out.find(part) != std::string::npos);
  };
  fails("after.exp_avg is missing", [](Outputs& o) { o.erase("exp_avg"); });
  fails("after.master is I32, wanted F32",
        [](Outputs& o) { o["master"].spec.dtype = SafeDType::i32; });
  fails("after.master has shape [3, 43], wanted [129]", [](Outputs& o) {
    o["master"].spec.shape = {3, 43};
  });
  fails("'after.more' is not an output of the call", [](Outputs& o) {
    o["more"] = o["master"];
    o["more"].spec.name = "after.more";
  });
  fails("after.exp_avg_sq differs in 2 of 129 elements, first [127]", [](Outputs& o) {
    element(o["exp_avg_sq"], 127) += 1;
    element(o["exp_avg_sq"], 128) += 1;
  });
}

TEST_CASE("judge: another library's results fail, are identified, and pass as its dialect") {
  const Call call({"adamw_update", "training", "1003", "3", "0"});
  Outputs outputs = call.right;
  OpCall made(*call.choice.op, call.choice.shape);
  DialectHyper h;  // "typical"
  h.lr = 1e-3;
  h.weight_decay = 0.01;
  h.t = 3;
  h.beta1 = 0.9F;
  h.beta2 = 0.999F;
  update(*find_dialect("torch-cpu-fused"), h, false,
         {made.in<float>(0), made.get<float>(1), made.get<float>(2), made.get<float>(3), {}, {}});
  outputs = outputs_of(call.choice, made);
  const CliResult failed = call.judged(outputs);
  CHECK(failed.exit_code == 1);
  CHECK(failed.out.find("  input   before.grad 0x") != std::string::npos);
  CHECK(failed.out.ends_with("  they match torch-cpu-fused\n"));
  CHECK(call.judged(outputs, "--dialect torch-cpu-fused").exit_code == 0);
  CHECK(call.judged(outputs, "--dialect torch-cpu-single").exit_code == 1);
  CHECK(call.judged(call.right, "--dialect contract").exit_code == 0);
  element(outputs["master"], 5) += 1;
  CHECK(call.judged(outputs).out.find("no known dialect") != std::string::npos);

  expect_refusal(call.judged(outputs, "--dialect torch-cpu-fuse"), "did you mean torch-cpu-fused");
  expect_refusal(call.judged(outputs, "--dialect torch-sgd"), "torch-sgd does not compute");
  const Call cast({"unscale", "", "5", "1", "0"});
  expect_refusal(cast.judged(cast.right, "--dialect contract"), "--dialect does not apply to");
}

TEST_CASE("judge: a changed call is refused") {
  const Call call({"adamw_update", "training", "33", "3", "0"});
  write(call.out, call.right);
  const auto refused = [&](const char* part, const std::function<void(std::string&)>& harm) {
    std::string content = read_file(call.in);
    harm(content);
    const std::string path = call.folder.write("changed.safetensors", content);
    expect_refusal("judge " + quoted(path) + " " + quoted(call.out), part);
  };
  const auto replace = [](std::string& text, const std::string& from, const std::string& to) {
    REQUIRE(from.size() == to.size());
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
  };
  refused("differs from the input written by gen",
          [](std::string& c) { c.back() = static_cast<char>(c.back() ^ 1); });
  refused("before.", [&](std::string& c) { replace(c, "\"seed\":\"3\"", "\"seed\":\"4\""); });
  refused("'setting.lr' differs from",
          [&](std::string& c) { replace(c, "\"setting.lr\":\"0.001", "\"setting.lr\":\"0.002"); });
  refused("its metadata cannot be used",
          [&](std::string& c) { replace(c, "\"adamw_update\"", "\"adamw_updatf\""); });
  refused("it was written by contract '9'",
          [&](std::string& c) { replace(c, "\"contract\":\"2\"", "\"contract\":\"9\""); });
  refused("", [](std::string& c) { c.resize(c.size() - 1); });
  refused("the metadata has no 'schema'",
          [&](std::string& c) { replace(c, "\"schema\"", "\"schemb\""); });
  expect_refusal("judge " + quoted(call.out) + " " + quoted(call.out),
                 "the metadata has no 'schema'");
}

TEST_CASE("judge: p-norm results pass within the contract's bound, and fail beyond") {
  const Call call({"grad_norm_p", "training", "1003", "3", "p 3"});
  const auto times = [&](double factor) {
    Outputs outputs = call.right;
    double norm = 0;
    std::memcpy(&norm, outputs["grad_norm"].bytes.data(), sizeof(norm));
    norm *= factor;
    std::memcpy(outputs["grad_norm"].bytes.data(), &norm, sizeof(norm));
    return call.judged(outputs);
  };
  CHECK(call.judged(call.right).out.find(": the bits of the reference") != std::string::npos);
  const CliResult near = times(1 + 0x1p-51);
  CAPTURE(near.out);
  CHECK(near.exit_code == 0);
  CHECK(near.out.find("other bits than the reference, an error 0.") != std::string::npos);
  const CliResult fp32 = times(1 + 0x1p-25);
  CAPTURE(fp32.out);
  CHECK(fp32.exit_code == 1);
  CHECK(fp32.out.find("after.grad_norm differs in 1 of 1 elements") != std::string::npos);
  CHECK(fp32.out.find("times the contract") != std::string::npos);
  CHECK(times(std::numeric_limits<double>::quiet_NaN()).exit_code == 1);
}

TEST_CASE(
    "judge: powers of beta in fp32 pass if they are accepted, and a mistake beside them fails") {
  const Call call({"adamw_update", "training", "1003", "3", "0"});
  const auto judged = [&](const Fp32PowersAdam& program, const std::string& accept) {
    OpCall made(*call.choice.op, call.choice.shape);
    program(made);
    return call.judged(outputs_of(call.choice, made), "--accept " + accept);
  };
  const std::string powers = "any-order,fp32-powers";
  CHECK(judged({}, "any-order").exit_code == 1);
  const CliResult legal = judged({}, powers);
  CAPTURE(legal.out);
  CHECK(legal.exit_code == 0);
  CHECK(legal.out.find("  judged: ") != std::string::npos);
  CHECK(legal.out.find(" by powers of beta in fp32, ") != std::string::npos);
  const CliResult wrong = judged({.lr_factor = 1.0001}, powers);
  CAPTURE(wrong.out);
  CHECK(wrong.exit_code == 1);
  CHECK(wrong.out.find("after.master is in no legal order in ") != std::string::npos);

  const std::string files = "judge " + quoted(call.in) + " " + quoted(call.out);
  expect_refusal(files + " --accept fp32-powers", "use any-order,fp32-powers");
  const Call sgd({"sgd_update", "training", "100", "3", "0"});
  write(sgd.out, sgd.right);
  expect_refusal("judge " + quoted(sgd.in) + " " + quoted(sgd.out) + " --accept " + powers,
                 "--accept fp32-powers does not apply to sgd_update");
}

TEST_CASE(
    "judge: any order shows the result that lost a NaN, and takes another class that is legal") {
  const Call call({"adamw_update", "special", "4001", "3", "0"});
  const auto judged = [&](void (*kernel)(OpCall&)) {
    OpCall made(*call.choice.op, call.choice.shape);
    kernel(made);
    write(call.out, outputs_of(call.choice, made));
    return judge_call(call.in, call.out, "", {.any_order = true});
  };
  const JudgedCall legal = judged(adamw_decay_as_factor);
  CAPTURE(legal.text);
  CHECK(legal.pass);
  CHECK(legal.text.find("  judged: ") != std::string::npos);
  CHECK(legal.text.find(" 0 by class") == std::string::npos);
  const JudgedCall lost = judged(adamw_without_nan);
  CAPTURE(lost.text);
  CHECK_FALSE(lost.pass);
  CHECK(lost.text.find("is in no legal order in ") != std::string::npos);
  CHECK(lost.text.find(" (nan) (the reference)") != std::string::npos);
  CHECK(lost.text.find("and has to be NaN") != std::string::npos);
  CHECK(lost.text.find("another order of the same formula") == std::string::npos);
}

TEST_CASE("judge: results in another order pass if accepted, wrong ones never") {
  const Call call({"unscale", "training", "1003", "3", "1"});
  const auto scaled = [&](const std::function<float(float)>& by) {
    Outputs outputs = call.right;
    const OpCall made(*call.choice.op, call.choice.shape);
    for (std::size_t i = 0; i < 1003; ++i) {
      const float x = by(made.in<float>(0)[i]);
      std::memcpy(outputs["unscaled_grad"].bytes.data() + 4 * i, &x, 4);
    }
    write(call.out, outputs);
  };
  const float reciprocal = 1 / 0x1.555556p-2F;
  scaled([&](float x) { return x / reciprocal; });
  const JudgedCall strict = judge_call(call.in, call.out, "");
  CAPTURE(strict.text);
  CHECK_FALSE(strict.pass);
  CHECK(strict.text.find("within the bound of any legal order") != std::string::npos);
  const JudgedCall legal = judge_call(call.in, call.out, "", {.any_order = true});
  CAPTURE(legal.text);
  CHECK(legal.pass);
  CHECK(legal.text.find("other bits than the reference, and at most 0.") != std::string::npos);
  scaled([&](float x) { return x * 0.33333F; });
  const JudgedCall wrong = judge_call(call.in, call.out, "", {.any_order = true});
  CHECK_FALSE(wrong.pass);
  CHECK(wrong.text.find("in no legal order: ") != std::string::npos);
  CHECK(run_cli("judge " + quoted(call.in) + " " + quoted(call.out) + " --accept any-order")
            .exit_code == 1);
  expect_refusal("judge " + quoted(call.in) + " " + quoted(call.out) + " --accept anything",
                 "use bits, any-order or any-order,fp32-powers");
  expect_refusal("judge " + quoted(call.in) + " " + quoted(call.out) +
                     " --accept any-order --dialect torch-cpu-fused",
                 "leave out one of them");

  const Call cast({"cast_to_bf16", "training", "100", "3", "0"});
  Outputs truncated = cast.right;
  truncated.begin()->second.bytes[6] ^= std::byte{1};
  write(cast.out, truncated);
  const JudgedCall one = judge_call(cast.in, cast.out, "", {.any_order = true});
  CAPTURE(one.text);
  CHECK_FALSE(one.pass);
  CHECK(one.text.find("because it rounds once, to nearest even") != std::string::npos);
}

TEST_CASE("judge: an amax is shown as a number") {
  const Call call({"mxfp8_scales", "", "64", "3", "0"});
  Outputs outputs = call.right;
  outputs.at("exponent").bytes[5] ^= std::byte{1};
  const CliResult result = call.judged(outputs);
  CHECK(result.exit_code == 1);
  const OpCall made(*call.choice.op, call.choice.shape);
  const std::string amax = show_bits(DType::fp32, element_bits(made.view(0), 5));
  CHECK(result.out.find("before.amax " + amax) != std::string::npos);
}
