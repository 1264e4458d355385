// Files and flags without a valid recording: one sentence that names the tensor, exit 2, nothing
// written.

#include <doctest.h>

#include <sys/stat.h>

#include <chrono>

#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/model/recorded_support.hpp"
#include "verification/model/recorded.hpp"

namespace recorded_refused_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

/// Runs a recording with one change.
void expect_flaw(const std::function<void(Recording&)>& change, const std::string& must_mention) {
  const TemporaryFolder folder;
  Recording recording = small_recording();
  change(recording);
  save(recording, folder.file("my gradients"));
  // Few cases: a run that is not rejected should end soon.
  expect_refusal("verify --world self --stage 1 --impl host --dtype bf16 --gradients " +
                     quoted(folder.file("my gradients")),
                 must_mention);
}

void expect_renamed(const std::string& name, const std::string& must_mention) {
  expect_flaw([&](Recording& r) { r.tensors[name] = r.tensors.at("grad.1.0.w"); }, must_mention);
}

}  // namespace

TEST_CASE("recorded: loading time is proportional to the number of tensors") {
  const TemporaryFolder folder;
  const auto seconds = [&](int parameters) {
    Recording recording;
    for (int i = 0; i < parameters; ++i) {
      const std::string name = "layer." + std::to_string(i);
      recording.tensors["grad.1.0." + name] = zero_tensor(SafeDType::f32, {1});
      recording.tensors["param." + name] = zero_tensor(SafeDType::f32, {1});
    }
    const std::string path = folder.file(std::to_string(parameters) + ".safetensors");
    save(recording, path);
    const auto begin = std::chrono::steady_clock::now();
    const zeroproof::workload::RecordedGradients loaded(path);
    CHECK(loaded.params().size() == static_cast<std::size_t>(parameters));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const double small = seconds(2000);
  CHECK(seconds(32000) <
        80 * small + 0.1);  // sixteen times as many; a quadratic search would take 256 times
}

TEST_CASE("recorded: files that are not recordings are rejected") {
  const TemporaryFolder folder;
  expect_refusal("verify --gradients " + quoted(folder.file("missing")),
                 "missing cannot be opened");
  expect_refusal("verify --gradients /tmp", "is a directory");
  expect_refusal("verify --gradients " + quoted(folder.write("text", "These are not gradients.")),
                 "text: the header");
  expect_refusal("verify --gradients " + quoted(folder.write("empty", "")), "0 bytes");
  expect_flaw([](Recording& r) { r.tensors.clear(); }, "has no gradients");
  expect_flaw(
      [](Recording& r) {
        r.tensors = {{"param.w", zero_tensor(SafeDType::f32, {2})}};
      },
      "has no gradients");
  expect_flaw(
      [](Recording& r) {
        r.tensors = {{"grad.1.0.w", zero_tensor(SafeDType::f32, {0})}};
      },
      "all parameters are empty");
}

TEST_CASE("recorded: unknown tensor names are rejected") {
  for (const char* name : {"grads.1.0.w", "w", "grad.1.0", "grad.1.0.", "grad.1.w", "grad..0.w",
                           "grad.1..w", "grad.0.0.w", "grad.-1.0.w", "grad.1.-1.w", "grad.01.0.w",
                           "grad.1.00.w", "grad.+1.0.w", "grad.1e0.0.w", "grad.1000001.0.w",
                           "grad.1.1048576.w", "grad.99999999999999999999.0.w", "loss.1", "Loss"}) {
    expect_renamed(name, "'" + std::string(name) + "' has no known name");
  }
}

TEST_CASE("recorded: inconsistent gradients are rejected") {
  expect_flaw(
      [](Recording& r) {
        r.tensors["grad.1.0.w"] = zero_tensor(SafeDType::f64, {2, 3});
      },
      "'grad.1.0.w' is F64");
  expect_flaw(
      [](Recording& r) {
        r.tensors["grad.2.1.w"] = zero_tensor(SafeDType::f32, {3, 2});
      },
      "'grad.2.1.w' has the shape [3, 2] but 'grad.1.0.w' has [2, 3]");
  expect_flaw([](Recording& r) { r.tensors["grad.1.2.w"] = zero_tensor(SafeDType::f32, {}); },
              "has the shape []");
  expect_flaw([](Recording& r) { r.tensors.erase("grad.1.1.a.b"); }, "'grad.1.1.a.b' is missing");
  expect_flaw([](Recording& r) { r.tensors.erase("grad.2.2.w"); }, "'grad.2.2.w' is missing");
  expect_renamed("grad.4.0.w", "'grad.3.0.a.b' is missing");
}

TEST_CASE("recorded: the first gap is reported") {
  expect_renamed("grad.1.7.w", "'grad.1.3.a.b' is missing");
  expect_renamed("grad.1000000.1048575.w",
                 "'grad.1.3.a.b' is missing");  // found without a search of all
  expect_renamed("grad.1.0.new", "'grad.1.1.new' is missing");
}

TEST_CASE("recorded: inconsistent first values are rejected") {
  const auto param = [](const std::string& name, SafeDType dtype, std::vector<std::int64_t> shape) {
    return [=](Recording& r) { r.tensors["param." + name] = zero_tensor(dtype, shape); };
  };
  expect_flaw(param("v", SafeDType::f32, {2}), "'param.v' has no gradients");
  expect_flaw(param("", SafeDType::f32, {2}), "'param.' has no gradients");
  expect_flaw(param("w", SafeDType::bf16, {2, 3}), "'param.w' is BF16 [2, 3], not F32 [2, 3]");
  expect_flaw(param("w", SafeDType::f32, {6}), "'param.w' is F32 [6], not F32 [2, 3]");
  expect_flaw(param("w", SafeDType::f32, {2, 3}), "'param.a.b' is missing");
}

TEST_CASE("recorded: contradictory metadata are rejected") {
  const auto metadata = [](const std::string& key, const std::string& value) {
    return [=](Recording& r) { r.metadata[key] = value; };
  };
  expect_flaw(metadata("steps", "3"), "metadata steps says 3 but there are gradients of 2");
  expect_flaw(metadata("steps", "two"), "metadata steps is 'two'");
  expect_flaw(metadata("micro_batches", "2"), "metadata micro_batches says 2");
  expect_flaw(metadata("micro_batches", ""), "metadata micro_batches is ''");
  expect_flaw(metadata("loss_scale_log2", "127"), "loss_scale_log2 is 127");
  expect_flaw(metadata("loss_scale_log2", "-127"), "loss_scale_log2 is -127");
  expect_flaw(metadata("loss_scale_log2", "1.5"), "loss_scale_log2 is '1.5'");
  expect_flaw(metadata("order", "w"), "does not list 'a.b'");
  expect_flaw(metadata("order", ""), "does not list 'a.b'");
  expect_flaw(metadata("order", "w\nw\na.b"), "'w', which has no gradients or is listed twice");
  expect_flaw(metadata("order", "w\na.b\nc"), "lists 'c'");
  expect_flaw(metadata("order", "w\n\na.b"), "lists ''");
  expect_flaw(
      [](Recording& r) {
        r.tensors["loss"] = zero_tensor(SafeDType::f64, {3, 2});
      },
      "'loss' is not F64 or F32 [2, 3]");
  expect_flaw(
      [](Recording& r) {
        r.tensors["loss"] = zero_tensor(SafeDType::f16, {2, 3});
      },
      "'loss' is not");
}

TEST_CASE("recorded: incompatible flags are rejected") {
  const TemporaryFolder folder;
  const std::string file = quoted(folder.file("gradients"));
  save(small_recording(), folder.file("gradients"));
  expect_refusal("verify --steps 3 --gradients " + file, "run.steps is 3 but");
  expect_refusal("verify --micro-batches 2 --gradients " + file, "run.micro_batches is 2 but");
  expect_refusal("verify --text README.md --gradients " + file,
                 "--text was given with --gradients");
  expect_refusal("verify byte_gpt_tiny --gradients " + file,
                 "'byte_gpt_tiny' cannot be combined with --gradients");
  const std::string id = "/adamw/host/stage1/self/bf16/lockstep/bucket:1024/omp:1";
  expect_refusal("verify byte_gpt" + id + " --gradients " + file, "'byte_gpt' cannot be combined");
  expect_refusal("verify recorded", "add --gradients FILE");
  expect_refusal("verify recorded" + id, "add --gradients FILE");
  CHECK(run_cli("verify recorded" + id + " --gradients " + file).exit_code ==
        4);  // it runs, with too few checks to be trusted
  const CliResult list = run_cli("list --world self --gradients " + file);
  CHECK(list.exit_code == 0);
  CHECK(list.out.find("recorded/adamw/host/stage0/self/bf16/lockstep") == 0);
  CHECK(list.out.find("byte_gpt") == std::string::npos);
  CHECK(run_cli("verify nothing --gradients " + file).exit_code == 4);
}

TEST_CASE("recorded: record rejects unsupported requests") {
  const TemporaryFolder folder;
  expect_refusal("record --workload byte_gpt_tinny " + quoted(folder.file("f")),
                 "did you mean byte_gpt_tiny?");
  expect_refusal("record --workload recorded " + quoted(folder.file("f")),
                 "workload 'recorded' does not exist");
  expect_refusal("record --workload byte_gpt_tiny --dtype fp8 " + quoted(folder.file("f")), "fp8");
  expect_refusal("record --workload byte_gpt_tiny " + quoted(folder.file("no/such/folder/f")),
                 "cannot be written");
  CHECK(folder.empty());
  REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) ==
          0);  // not a real device: see safetensors_writer_test.cpp
  expect_refusal("record --workload byte_gpt_tiny " + quoted(folder.file("pipe")),
                 "not a regular file");
}

}  // namespace recorded_refused_test
