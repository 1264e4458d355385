// The workload "recorded": reading a file, and repeating the run that was recorded.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "common/base/float_formats.hpp"
#include "common/base/guarded_buffer.hpp"
#include "common/base/philox.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/model/recorded_support.hpp"
#include "verification/model/recorded.hpp"

namespace recorded_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using workload::RecordedGradients;
using Json = nlohmann::json;

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

/// The values of parameter `tensor` in one gradient.
template <class T>
std::vector<T> leaf_of(const RecordedGradients& recorded, std::int64_t step, std::int64_t j,
                       int scale, DType dtype, std::size_t tensor = 0) {
  const FlatLayout layout(recorded.params());
  const GuardedBuffer leaf(layout.padded_numel(), dtype);
  recorded.micro_batch_grad(step, j, scale, layout, leaf.view());
  const TensorSlot& slot = layout.tensors()[tensor];
  const Span<T> all = leaf.as<T>();
  // Padding still has the fill of GuardedBuffer.
  const auto* after = reinterpret_cast<const std::uint8_t*>(all.data() + slot.begin + slot.numel);
  CHECK(*after == 0xFF);
  CHECK(leaf.guards_intact());
  return {all.begin() + slot.begin, all.begin() + slot.begin + slot.numel};
}

/// The trajectory hash of a run of fp32, bf16 or fp16 parameters; "" omits the dtype.
std::string trajectory(const std::string& what, const std::string& dtype,
                       const std::string& flags) {
  const TemporaryFolder folder;
  const std::string report = folder.file("report.json");
  const CliResult result = run_cli("verify " + what + " --recipe adamw --threads 1 " +
                                   (dtype.empty() ? "" : "--dtype " + dtype + " ") + flags +
                                   " --report " + quoted("json:" + report));
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  const Json json = Json::parse(read_file(report));
  std::set<std::string> hashes;
  for (const Json& one : json.at("cases")) {
    CHECK(one.at("status") == "pass");
    hashes.insert(one.at("training").at("trajectory_hash").get<std::string>());
  }
  CHECK_FALSE(json.at("cases").empty());
  REQUIRE(hashes.size() == 1);
  return *hashes.begin();
}

}  // namespace

TEST_CASE("recorded: reads names, shapes, order and counts") {
  const TemporaryFolder folder;
  Recording recording = small_recording();
  save(recording, folder.file("plain"));
  const RecordedGradients plain(folder.file("plain"));
  CHECK(plain.steps() == 2);
  CHECK(plain.micro_batches() == 3);
  CHECK(plain.log2_loss_scale() == 0);
  REQUIRE(plain.params().size() == 2);
  CHECK(plain.params()[0].name == "a.b");
  CHECK(plain.params()[1].shape == std::vector<std::int64_t>{2, 3});
  CHECK(plain.file_bytes() == static_cast<std::int64_t>(read_file(folder.file("plain")).size()));

  recording.metadata = {
      {"order", "w\na.b"}, {"steps", "2"}, {"micro_batches", "3"}, {"loss_scale_log2", "-5"}};
  save(recording, folder.file("ordered"));
  const RecordedGradients ordered(folder.file("ordered"));
  CHECK(ordered.params()[0].name == "w");
  CHECK(ordered.log2_loss_scale() == -5);
  // Step 2, micro-batch 1 has tensors 9 ("w") and 10 ("a.b").
  CHECK(leaf_of<float>(ordered, 2, 1, -5, DType::fp32, 0) ==
        std::vector<float>{9 / 64.F, 10 / 64.F, 11 / 64.F, 12 / 64.F, 13 / 64.F, 14 / 64.F});
  CHECK(leaf_of<float>(ordered, 2, 1, -5, DType::fp32, 1) ==
        std::vector<float>{10 / 64.F, 11 / 64.F, 12 / 64.F, 13 / 64.F, 14 / 64.F});
}

TEST_CASE("recorded: rescaling is exact, or rounded once") {
  const TemporaryFolder folder;
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = {1.0F,     -0.0F, 0x1.000002p+0F, 0x1.8p-148F, 0x1.FFFFFEp+127F,
                                     infinity, nan,   -0x1.FFCp+3F,   0x1.001p+4F, 0x1.003p+4F};
  Recording recording;
  recording.tensors["grad.1.0.w"] = recorded_tensor(SafeDType::f32, {10}, values);
  recording.metadata["loss_scale_log2"] = "3";
  save(recording, folder.file("f"));
  const RecordedGradients recorded(folder.file("f"));

  const std::vector<float> same = leaf_of<float>(recorded, 1, 0, 3, DType::fp32);
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(bits(same[i]) == bits(values[i]));

  const std::vector<float> down = leaf_of<float>(recorded, 1, 0, 0, DType::fp32);  // times 2^-3
  CHECK(bits(down[0]) == bits(0.125F));
  CHECK(bits(down[1]) == bits(-0.0F));
  CHECK(bits(down[2]) == bits(0x1.000002p-3F));
  CHECK(bits(down[3]) == 0);  // 3 * 2^-152 is below half of 2^-149
  CHECK(std::isnan(down[6]));
  const std::vector<float> up = leaf_of<float>(recorded, 1, 0, 5, DType::fp32);  // times 2^2
  CHECK(up[0] == 4.0F);
  CHECK(bits(up[3]) == 12);
  CHECK(up[4] == infinity);
  CHECK(up[5] == infinity);

  const std::vector<fp16> half = leaf_of<fp16>(recorded, 1, 0, 3, DType::fp16);
  const std::vector<std::uint16_t> expected = {0x3C00, 0x8000, 0x3C00, 0x0000, 0x7C00,
                                               0x7C00, 0x7FFF, 0xCBFF, 0x4C00, 0x4C01};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(half[i].bits == expected[i]);
  }
  CHECK(leaf_of<fp16>(recorded, 1, 0, 14, DType::fp16)[7].bits == 0xF7FF);
  CHECK(leaf_of<fp16>(recorded, 1, 0, 16, DType::fp16)[7].bits == 0xFC00);
}

TEST_CASE("recorded: 16-bit gradients keep their values") {
  const TemporaryFolder folder;
  Recording recording;
  recording.tensors["grad.1.0.b"] =
      recorded_tensor<std::uint16_t>(SafeDType::bf16, {2, 2}, {0x3F80, 0xBF81, 0x7FC0, 1});
  recording.tensors["grad.1.0.h"] = recorded_tensor<std::uint16_t>(SafeDType::f16, {}, {0x0001});
  recording.tensors["grad.1.0.z"] = zero_tensor(SafeDType::f32, {0, 4});
  save(recording, folder.file("f"));
  const RecordedGradients recorded(folder.file("f"));
  const std::vector<float> b = leaf_of<float>(recorded, 1, 0, 0, DType::fp32, 0);
  CHECK(b[0] == 1.0F);
  CHECK(b[1] == -1.0078125F);
  CHECK(std::isnan(b[2]));
  CHECK(b[3] == 0x1p-133F);
  CHECK(leaf_of<float>(recorded, 1, 0, 0, DType::fp32, 1)[0] == 0x1p-24F);
  CHECK(leaf_of<fp16>(recorded, 1, 0, 10, DType::fp16, 1)[0].bits == to_fp16(0x1p-14F).bits);
  CHECK(recorded.params()[2].numel() == 0);
}

TEST_CASE("recorded: first values are from the file, or seeded by position") {
  const TemporaryFolder folder;
  Recording recording = small_recording();
  save(recording, folder.file("seeded"));
  const RecordedGradients seeded(folder.file("seeded"));
  const FlatLayout layout(seeded.params());
  std::vector<float> flat(layout.padded_numel(), 7.0F);
  seeded.init_parameters(layout, 5, flat);
  CHECK(bits(flat[0]) == bits(0.02F * Philox(5, 256).bell(0)));
  CHECK(bits(flat[4]) == bits(0.02F * Philox(5, 256).bell(4)));
  CHECK(flat[5] == 7.0F);
  CHECK(bits(flat[1024 + 5]) == bits(0.02F * Philox(5, 257).bell(5)));
  recording.tensors["param.w"] = recorded_tensor<float>(SafeDType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  recording.tensors["param.a.b"] =
      recorded_tensor<float>(SafeDType::f32, {5}, {-1, -2, -3, -4, -5});
  save(recording, folder.file("given"));
  RecordedGradients(folder.file("given")).init_parameters(layout, 5, flat);
  CHECK(flat[4] == -5.0F);
  CHECK(flat[5] == 7.0F);
  CHECK(flat[1024] == 1.0F);
  CHECK(flat[1029] == 6.0F);
}

TEST_CASE("recorded: losses are passed on unchanged") {
  const TemporaryFolder folder;
  Recording recording = small_recording();
  save(recording, folder.file("none"));
  const FlatLayout layout(RecordedGradients(folder.file("none")).params());
  const GuardedBuffer leaf(layout.padded_numel(), DType::fp32);
  CHECK(std::isnan(
      RecordedGradients(folder.file("none")).micro_batch_grad(1, 0, 0, layout, leaf.view())));
  recording.tensors["loss"] = recorded_tensor<double>(SafeDType::f64, {2, 3}, {1, 2, 3, 4, 5, 6});
  save(recording, folder.file("f64"));
  CHECK(RecordedGradients(folder.file("f64")).micro_batch_grad(2, 1, 9, layout, leaf.view()) ==
        5.0);
  recording.tensors["loss"] = recorded_tensor<float>(SafeDType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  save(recording, folder.file("f32"));
  CHECK(RecordedGradients(folder.file("f32")).micro_batch_grad(1, 2, 9, layout, leaf.view()) ==
        3.0);
}

TEST_CASE("recorded: a recording of byte_gpt_tiny has the same trajectory, in every dtype") {
  const TemporaryFolder folder;
  const std::string file = folder.file("tiny gradients");
  std::set<std::string> hashes;
  for (const auto& [dtype, worlds] : {std::pair<std::string, std::string>{"e4m3", "self"},
                                      {"e5m2", "threads:3"},
                                      {"fp32", "self"},
                                      {"bf16", "threads:3"},
                                      {"fp16", "self,threads:3"}}) {
    const CliResult recorded =
        run_cli("record --workload byte_gpt_tiny --dtype " + dtype + " " + quoted(file));
    CAPTURE(recorded.err);
    REQUIRE(recorded.exit_code == 0);
    CHECK(recorded.out.find("6 steps of 7 micro-batches, 37 tensors with 12269 parameters") !=
          std::string::npos);
    // The file has the settings of the run, including the dtype.
    const std::string ours =
        trajectory("--gradients " + quoted(file), "", "--stage 0,2 --world " + worlds);
    CHECK(ours == trajectory("byte_gpt_tiny", dtype, "--world self --stage 1"));
    hashes.insert(ours);
  }
  CHECK(hashes.size() == 5);
  const std::string first = read_file(file);
  CHECK(run_cli("record --workload byte_gpt_tiny --dtype fp16 " + quoted(file)).exit_code == 0);
  CHECK(read_file(file) == first);  // the same bytes again
  // Fewer steps of the same file are the start of the same run; processes read it as threads do.
  const std::string start = "--gradients " + quoted(file);
  const std::string few = "--steps 4 --stage 2 --impl host";
  const std::string expected =
      trajectory("byte_gpt_tiny", "fp16", "--steps 4 --world self --stage 1");
  CHECK(trajectory(start, "fp16", few + " --world self") == expected);
#if defined(ZP_HAVE_MPI)
  CHECK(trajectory(start, "fp16", few + " --world mpi:2") == expected);
#endif
}

TEST_CASE("recorded: the command line overrides the settings of the file") {
  const TemporaryFolder folder;
  const std::string file = folder.file("gradients");
  const std::string config =
      folder.write("run.toml", "[optimizer]\nlr = 2e-2\nrule = \"adam\"\n[run]\nseed = 9\n");
  REQUIRE(run_cli("record --workload byte_gpt_tiny --dtype bf16 --config " + quoted(config) + " " +
                  quoted(file))
              .exit_code == 0);
  const auto hash = [](const std::string& arguments) {
    const CliResult run =
        run_cli("verify " + arguments + " --impl host --stage 1 --world self --threads 1");
    const std::size_t at = run.out.find("trajectory ");
    CHECK(run.exit_code == 0);
    return at == std::string::npos ? run.err : run.out.substr(run.out.find("bf16  ", at) + 6, 32);
  };
  const std::string recorded = hash("--gradients " + quoted(file));
  CHECK(recorded == hash("byte_gpt_tiny --recipe adam --dtype bf16 --config " + quoted(config)));
  const std::string other = folder.write("other.toml", "[optimizer]\nlr = 1e-3\n");
  CHECK(recorded != hash("--gradients " + quoted(file) + " --config " + quoted(other)));
  // Unreadable settings of a file are an error; a file without settings uses those of the main job.
  Recording recording = small_recording();
  recording.metadata["settings"] = "[run]\nstep = 3\n";
  save(recording, folder.file("bad"));
  const CliResult bad = run_cli("verify --gradients " + quoted(folder.file("bad")));
  CHECK(bad.exit_code == 2);
  CHECK(bad.err.find("metadata settings:2: unknown key run.step") != std::string::npos);
}

TEST_CASE("recorded: a run that a recording cannot repeat is rejected") {
  const TemporaryFolder folder;
  const std::string config = folder.write("idle.toml", "[run]\nidle_tensors = true\n");
  const CliResult result = run_cli("record --workload byte_gpt_tiny --config " + quoted(config) +
                                   " " + quoted(folder.file("gradients")));
  CHECK(result.exit_code == 2);
  CHECK(result.err.find("idle_tensors") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.file("gradients")));
}

TEST_CASE(
    "recorded: recipes with idle tensors run on gradients of all, means over tokens are rejected") {
  const TemporaryFolder folder;
  const std::string file = folder.file("gradients");
  REQUIRE(run_cli("record --workload byte_gpt_tiny --dtype e5m2 " + quoted(file)).exit_code == 0);
  const std::string run = " --impl host --world self --stage 1 --gradients " + quoted(file);
  const CliResult delayed = run_cli("verify --recipe fp8-delayed" + run);
  CAPTURE(delayed.err);
  CHECK(delayed.exit_code == 0);
  CHECK(delayed.out.find("1 pass, 0 fail") != std::string::npos);
  expect_refusal("verify --recipe adamw-tokens" + run, "a recipe that does not set it");
  const std::string idle = folder.write("idle.toml", "[run]\nidle_tensors = true\n");
  expect_refusal("verify --recipe fp8-delayed --config " + quoted(idle) + run,
                 "run.idle_tensors is true");
}

TEST_CASE("recorded: the file says how its first state is made") {
  const TemporaryFolder folder;
  const std::string file = folder.file("gradients");
  const auto text_of = [&](const std::string& settings) {
    const std::string config = folder.write("run.toml", settings);
    REQUIRE(run_cli("record --workload byte_gpt_tiny --steps 1 --config " + quoted(config) + " " +
                    quoted(file))
                .exit_code == 0);
    return SafetensorsReader::open(file).metadata().at("initial_state");
  };
  CHECK(text_of("[run]\ninitial_state = \"zero\"\noverflow_step = 0\n") ==
        "0 steps applied; the state is 0");
  const std::string seeded = text_of("[run]\ninitial_step = 5\noverflow_step = 0\n");
  CHECK(seeded.starts_with("5 steps applied; "));
  CHECK(seeded.find("exp_avg_sq 1e-5 uniform(3, i)") != std::string::npos);
}

TEST_CASE("recorded: a planted fault is found, and its replay line finds it again") {
  const TemporaryFolder folder;
  const std::string file = folder.file("its gradients");
  save(small_recording(), file);
  const std::string report = folder.file("report.json");
  const CliResult failing = run_cli(
      "verify 'recorded/*/host/stage1/self/bf16/*' --fault decay-after-update --gradients " +
          quoted(file) + " --report " + quoted("text,json:" + report),
      "zeroproof-faults");
  CAPTURE(failing.err);
  CHECK(failing.exit_code == 1);
  CHECK(failing.out.find("gradients: " + file) != std::string::npos);
  const Json json = Json::parse(read_file(report));
  CHECK(json.at("input").at("kind") == "gradients");
  CHECK(json.at("training").at(0).at("context") == 0);
  CHECK(json.at("training").at(0).at("steps").at(0).at("loss").is_null());
  const std::string replay = json.at("cases").at(0).at("replay");
  const std::size_t arguments = replay.find(" replay ");
  REQUIRE(arguments != std::string::npos);
  CHECK(replay.rfind("/", 0) == 0);  // it works in any folder
  const CliResult again = run_cli(replay.substr(arguments), "zeroproof-faults");
  CHECK(again.exit_code == 1);
  CHECK(again.out.find("phase update") != std::string::npos);
}

}  // namespace recorded_test
