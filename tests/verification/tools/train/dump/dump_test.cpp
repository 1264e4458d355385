// verify --dump: every number of the undistributed optimizer, in the parameters' shapes, and
// nothing else.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/compare/tensors/tensor_files.hpp"
#include "verification/cases/recipes.hpp"
#include "verification/compare/judge/dense_baseline.hpp"
#include "verification/model/recorded.hpp"
#include "verification/tools/train/dump/dump.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

template <class Bits>
constexpr Bits infinity_of = sizeof(Bits) == 2   ? Bits{0x7F80}
                             : sizeof(Bits) == 4 ? static_cast<Bits>(0x7F800000)
                                                 : static_cast<Bits>(0x7FF0000000000000);

constexpr const char* tiny = "verify byte_gpt_tiny --impl host --world self --stage 0 ";

VerifyOptions options_for(const std::string& recipe, DType dtype) {
  VerifyOptions options;
  options.recipes = {recipe};
  options.overrides = [dtype](RunConfig& config) { config.dtypes = {dtype}; };
  return options;
}

/// A dump and a repeated run of its optimizer must agree in every tensor.
void check_dump_of(const std::string& recipe, DType dtype) {
  CAPTURE(recipe);
  const TemporaryFolder folder;
  const VerifyOptions options = options_for(recipe, dtype);
  const CaseSpec spec = cases_matching(options, "byte_gpt_tiny").front();
  const Experiment experiment = verification::experiment_of(options, spec);
  const DumpPlan plan(experiment);
  const std::vector<DumpTensor> tensors = plan.tensors({2, 3});
  const TrainingTrace trace = write_dump(experiment, plan, tensors, folder.file("d"), spec.id());
  CHECK(trace.steps.size() == 3);
  std::map<std::string, std::vector<std::byte>> found;
  for (const NamedTensor& each : read_tensors(folder.file("d"))) found[each.spec.name] = each.bytes;
  CHECK(found.size() == tensors.size());

  GradCache leaves(experiment);
  DenseBaseline baseline(experiment, leaves);
  baseline.step(1);
  for (std::int64_t step = 2; step <= 3; ++step) {
    baseline.step(step);
    const reference::DenseOptimizer& optimizer = baseline.optimizer();
    for (const BufferId id :
         {BufferId::master, BufferId::exp_avg, BufferId::exp_avg_sq, BufferId::max_exp_avg_sq,
          BufferId::momentum_buffer, BufferId::orthogonal, BufferId::param_full}) {
      const TensorView view = optimizer.buffer(id);
      const std::string buffer = id == BufferId::param_full ? "param" : std::string(name(id));
      for (const TensorSlot& slot : experiment.layout().tensors()) {
        const auto tensor = found.find(buffer + "." + std::to_string(step) + "." + slot.name);
        CAPTURE(slot.name);
        CAPTURE(buffer);
        REQUIRE((tensor != found.end()) == (view.data != nullptr));
        if (view.data == nullptr) continue;
        const std::int64_t width = num_bytes(view.dtype);
        REQUIRE(static_cast<std::int64_t>(tensor->second.size()) == slot.numel * width);
        REQUIRE(std::memcmp(tensor->second.data(),
                            static_cast<const std::byte*>(view.data) + slot.begin * width,
                            tensor->second.size()) == 0);
      }
    }
    const std::string at = "." + std::to_string(step);
    const reference::DenseStep& last = optimizer.last_step();
    std::vector<float> sizes;
    for (const StepScalars& set : last.scalars) sizes.push_back(set.step_size);
    CHECK(values_of<float>(folder.file("d"), "step_scalars.step_size" + at) == sizes);
    CHECK(values_of<std::uint32_t>(folder.file("d"), "step_scalars.is_first" + at).front() ==
          last.scalars.front().is_first);
    const double norm = values_of<double>(folder.file("d"), "grad_norm" + at).front();
    const double kept = last.grad_norm.front();
    CHECK(std::bit_cast<std::uint64_t>(norm) ==
          (std::isnan(kept) ? 0x7FFFFFFFFFFFFFFFU : std::bit_cast<std::uint64_t>(kept)));
    CHECK(values_of<std::int32_t>(folder.file("d"), "log2_loss_scale" + at).front() ==
          last.log2_loss_scale);
    CHECK(values_of<std::uint32_t>(folder.file("d"), "found_inf" + at).front() == last.found_inf);
    CHECK(values_of<std::uint8_t>(folder.file("d"), "skipped" + at).front() ==
          (last.skipped ? 1 : 0));
    CHECK(values_of<std::uint64_t>(folder.file("d"), "applied_steps" + at).front() ==
          static_cast<std::uint64_t>(optimizer.applied_steps()));
    if (traits_of(experiment.config().optimizer.rule).trust_ratio)
      CHECK(values_of<float>(folder.file("d"), "trust_ratio" + at) == last.trust_ratio);
  }
}

}  // namespace

TEST_CASE("a dump has the numbers of the undistributed optimizer, for every rule") {
  check_dump_of("adamw", DType::bf16);  // step 3 is skipped
  check_dump_of("sgd", DType::fp16);
  check_dump_of("adam", DType::fp32);
  check_dump_of("lamb", DType::fp16);
  check_dump_of("muon-heavy-max", DType::fp32);
  for (const Recipe& recipe : recipes()) {
    if (recipe.name.find("amsgrad") != std::string_view::npos ||
        recipe.name.find("idle") != std::string_view::npos ||
        recipe.name.find("group") != std::string_view::npos) {
      check_dump_of(std::string(recipe.name), DType::bf16);
    }
  }
}

TEST_CASE(
    "a dump of 8-bit parameters has scales, histories and both copies, each of its parameter's "
    "blocks") {
  const auto dumped = [](const std::string& recipe, DType dtype, const auto& check) {
    CAPTURE(recipe);
    const TemporaryFolder folder;
    const VerifyOptions options = options_for(recipe, dtype);
    const CaseSpec spec = cases_matching(options, "byte_gpt_tiny").front();
    const Experiment experiment = verification::experiment_of(options, spec);
    const DumpPlan plan(experiment);
    write_dump(experiment, plan, plan.tensors({2}), folder.file("d"), spec.id());
    GradCache leaves(experiment);
    DenseBaseline baseline(experiment, leaves);
    baseline.step(1);
    baseline.step(2);
    check(folder.file("d"), experiment, baseline.optimizer());
  };
  // All tensors' parts of a buffer, one after another.
  const auto joined = [](const std::string& file, const Experiment& experiment, BufferId id) {
    std::vector<std::byte> all;
    std::map<std::string, std::vector<std::byte>> found;
    for (const NamedTensor& each : read_tensors(file)) found[each.spec.name] = each.bytes;
    for (const TensorSlot& slot : experiment.layout().tensors()) {
      const std::vector<std::byte>& part = found.at(std::string(name(id)) + ".2." + slot.name);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  };
  const auto same = [&](const std::string& file, const Experiment& experiment,
                        const reference::DenseOptimizer& optimizer, BufferId id) {
    const TensorView view = optimizer.buffer(id);
    const auto* begin = static_cast<const std::byte*>(view.data);
    return joined(file, experiment, id) == std::vector<std::byte>(begin, begin + view.num_bytes());
  };
  dumped("fp8-delayed", DType::e5m2,
         [&](const std::string& file, const Experiment& experiment, const auto& optimizer) {
           for (const BufferId id : {BufferId::amax, BufferId::amax_history, BufferId::param_scale,
                                     BufferId::param_scale_inv})
             CHECK(same(file, experiment, optimizer, id));
           const auto reader = SafetensorsReader::open(file);
           CHECK(reader.find("amax_history.2.head.weight")->shape ==
                 std::vector<std::int64_t>{1, 1, 3});
           CHECK(reader.find("param.2.head.weight")->dtype == SafeDType::f8_e5m2);
           CHECK(reader.find("param_columns.2.head.weight") == nullptr);
         });
  dumped("fp8-mxfp8", DType::e4m3,
         [&](const std::string& file, const Experiment& experiment, const auto& optimizer) {
           for (const BufferId id :
                {BufferId::amax, BufferId::param_scale, BufferId::param_scale_inv,
                 BufferId::column_amax, BufferId::column_scale, BufferId::column_scale_inv})
             CHECK(same(file, experiment, optimizer, id));
           const auto reader = SafetensorsReader::open(file);
           const std::vector<std::int64_t> shape = reader.find("param.2.head.weight")->shape;
           CHECK(reader.find("param_columns.2.head.weight")->shape == shape);
           CHECK(reader.find("column_scale_inv.2.head.weight")->shape ==
                 std::vector<std::int64_t>{(shape[0] + 31) / 32, shape[1]});
         });
  dumped("fp8-current", DType::e4m3, [&](const std::string& file, const Experiment&, const auto&) {
    const auto reader = SafetensorsReader::open(file);
    const std::vector<std::int64_t> shape = reader.find("param.2.head.weight")->shape;
    CHECK(reader.find("param_columns.2.head.weight")->shape ==
          std::vector<std::int64_t>{shape[1], shape[0]});
  });
}

TEST_CASE("verify --dump: reports the file and its origin") {
  const TemporaryFolder folder;
  const CliResult run = run_cli(std::string(tiny) + "--recipe adamw --dtype bf16 --dump " +
                                quoted(folder.file("d")) + " --dump-steps 3,1,3");
  CAPTURE(run.err);
  CHECK(run.exit_code == 0);
  CHECK(run.out.find("dump: ") != std::string::npos);
  CHECK(run.out.find("byte_gpt_tiny adamw bf16, step 1, 3,") != std::string::npos);
  const auto reader = SafetensorsReader::open(folder.file("d"));
  CHECK(reader.find("master.1.head.weight") != nullptr);
  CHECK(reader.find("master.2.head.weight") == nullptr);
  CHECK(reader.find("param.3.head.weight")->dtype == SafeDType::bf16);
  CHECK(values_of<std::uint8_t>(folder.file("d"), "skipped.3").front() == 1);
  CHECK(std::isnan(values_of<double>(folder.file("d"), "grad_norm.3").front()));
  CHECK(reader.metadata().at("contract_version") == "2");
  CHECK(reader.metadata().at("case").starts_with(
      "byte_gpt_tiny/adamw/host/stage0/self/bf16/lockstep/"));
  CHECK(reader.metadata().at("settings").find("[optimizer]") != std::string::npos);
  CHECK(reader.metadata().at("recipe") == "adamw");
  CHECK(reader.metadata().at("dtype") == "bf16");
  CHECK(folder.num_entries() == 1);
}

TEST_CASE("dump: every NaN is the canonical one of its format") {
  const TemporaryFolder folder;
  const auto count = [&]<class Bits>(const std::string& name, Bits canonical) {
    std::int64_t found = 0;
    for (const Bits bits : values_of<Bits>(folder.file("d"), name)) {
      if (static_cast<Bits>(bits << 1) <= static_cast<Bits>(infinity_of<Bits> << 1)) continue;
      CHECK(bits == canonical);
      ++found;
    }
    return found;
  };
  run_cli(std::string(tiny) + "--recipe adamw-propagate --dtype bf16 --dump " +
          quoted(folder.file("d")) + " --dump-steps 6");
  CHECK(count("param.6.head.weight", std::uint16_t{0x7FFF}) == 1);
  CHECK(count("master.6.head.weight", std::uint32_t{0x7FFFFFFF}) == 1);
  CHECK(count("exp_avg.6.head.weight", std::uint32_t{0x7FFFFFFF}) == 1);
  run_cli(std::string(tiny) + "--recipe adamw --dtype bf16 --dump " + quoted(folder.file("d")) +
          " --dump-steps 3");
  CHECK(count("grad_norm.3", std::uint64_t{0x7FFFFFFFFFFFFFFF}) == 1);
  CHECK(count("clip_coef.3", std::uint32_t{0x7FFFFFFF}) == 1);
}

TEST_CASE("the last step is the default, and the same settings give the same file") {
  const TemporaryFolder folder;
  for (const char* file : {"one", "two"}) {
    CHECK(run_cli(std::string(tiny) + "--recipe adamw --dtype bf16 --steps 2 --dump " +
                  quoted(folder.file(file)))
              .exit_code == 0);
  }
  CHECK(SafetensorsReader::open(folder.file("one")).find("master.2.head.weight") != nullptr);
  CHECK(folder.read("one") == folder.read("two"));
  CHECK(
      run_cli("diff " + quoted(folder.file("one")) + " " + quoted(folder.file("two"))).exit_code ==
      0);
}

TEST_CASE("a dump is of one run, of steps that there are, in a place that can be written") {
  const TemporaryFolder folder;
  const std::string dump = "--dump " + quoted(folder.file("d"));
  expect_refusal(tiny + dump + " --dtype bf16", "choose one with --recipe, --dtype or --sum");
  expect_refusal(tiny + dump + " --recipe adamw --dtype bf16,fp16",
                 "byte_gpt_tiny adamw bf16 and byte_gpt_tiny adamw fp16");
  const std::string one = std::string(tiny) + "--recipe adamw --dtype bf16 ";
  for (const char* steps : {"0", "7", "1,x", "-1", "1.5", "99999999999999999999"}) {
    CAPTURE(steps);
    expect_refusal(one + dump + " --dump-steps=" + steps, "the run has the steps 1 to 6");
  }
  expect_refusal(one + "--dump-steps 1", "without --dump");
  expect_refusal(one + "--dump " + quoted(folder.file("none/d")), "none");
  expect_refusal(one + "--dump " + quoted(folder.file(".")), "");
  expect_refusal("verify clip " + dump, "only training cases have a trajectory");
  CHECK(folder.empty());
  const std::string gradients = quoted(folder.file("g"));
  REQUIRE(
      run_cli("record --workload byte_gpt_tiny --dtype bf16 --steps 1 " + gradients).exit_code ==
      0);
  const std::string before = folder.read("g");
  expect_refusal("verify --recipe adamw --gradients " + gradients + " --dump " + gradients,
                 "is both input and output");
  CHECK(folder.read("g") == before);
}

TEST_CASE("a run that has to end early leaves no dump") {
  const TemporaryFolder folder;
  const std::string config = folder.write("c.toml", "[run]\non_nonfinite = \"error\"\n");
  const CliResult run = run_cli(std::string(tiny) + "--recipe adamw --dtype bf16 --config " +
                                quoted(config) + " --dump " + quoted(folder.file("d")));
  CAPTURE(run.out);
  CHECK(run.exit_code == 1);
  CHECK(folder.num_entries() == 1);
}
