// State that is kept as codes with scales (R25) in files of other programs: an exported state is
// imported bit for bit, and values without codes are stored as after an update.

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/float_formats.hpp"
#include "common/io/checkpoint/checkpoint_manifest.hpp"
#include "common/step/state_format.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/compare/tensors/tensor_files.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

const std::string training =
    "train --workload byte_gpt_tiny --recipe adamw+model:even+norm:exact --dtype bf16 ";
const std::string coded = training + "--exp-avg-dtype e4m3 --exp-avg-sq-dtype fp16 ";
const std::string tensors[] = {"token_embedding.weight", "block1.mlp.up.weight", "head.weight"};

/// A folder with a training of two steps, "runs", and its state as a file, "state".
class Exported {
 public:
  explicit Exported(const std::string& command = coded, const std::string& settings = "") {
    std::ofstream(path("settings")) << settings;
    run(command + file("settings") + " --world threads:3 --stage 2 --steps 2 --checkpoint " +
        file("runs"));
    run("checkpoint export " + file("runs") + " -o " + file("state"));
  }

  std::string path(const std::string& name) const { return folder_.file(name); }
  std::string file(const std::string& name) const { return quoted(path(name)); }
  std::string import(const std::string& state, const std::string& like,
                     const std::string& out) const {
    return "checkpoint import " + file(state) + " --like " + file(like) + " -o " + file(out);
  }
  static void run(const std::string& command) {
    const CliResult result = run_cli(command);
    CAPTURE(command);
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
  }

  /// Writes the tensors of "state" for which `keep` returns true; it may change them.
  template <class Keep>
  void change(const std::string& name, const Keep& keep) const {
    std::vector<NamedTensor> kept;
    for (NamedTensor& each : read_tensors(path("state")))
      if (keep(each)) kept.push_back(std::move(each));
    write_tensors(path(name), kept);
  }

 private:
  TemporaryFolder folder_ = TemporaryFolder::in_memory();
};

bool is_stored_form(const std::string& name) {
  return name.find("_code.") != std::string::npos || name.find("_scale.") != std::string::npos;
}

/// The nearest e4m3 code by comparison with all of them, the even one of two.
e4m3 nearest_e4m3(double value) {
  std::uint8_t best = 0;
  const auto distance = [&](std::uint8_t bits) {
    return std::abs(to_float(e4m3{bits}) - std::abs(value));
  };
  for (std::uint8_t bits = 0; bits < 0x7F; ++bits) {
    if (distance(bits) < distance(best) || (distance(bits) == distance(best) && bits % 2 == 0))
      best = bits;
  }
  return {static_cast<std::uint8_t>(best | (std::signbit(value) ? 0x80 : 0))};
}

/// scale_inv of the block of an element, by R25.
float scale_of(const std::vector<float>& values, std::size_t i, float largest) {
  const std::size_t begin = i / 128 * 128, end = std::min(begin + 128, values.size());
  float amax = 0;
  for (std::size_t k = begin; k < end; ++k) amax = std::max(amax, std::abs(values[k]));
  return amax == 0 ? 1 : std::min(largest / amax, std::numeric_limits<float>::max());
}

}  // namespace

TEST_CASE("codes in files: an exported state is imported bit for bit, and continues on any grid") {
  const Exported state;
  for (const std::string& tensor : tensors) {
    CAPTURE(tensor);
    const auto codes = values_of<std::uint8_t>(state.path("state"), "exp_avg_code." + tensor);
    const auto scales = values_of<float>(state.path("state"), "exp_avg_scale." + tensor);
    const auto values = values_of<float>(state.path("state"), "exp_avg." + tensor);
    CHECK(scales.size() == (values.size() + 127) / 128);
    REQUIRE(codes.size() == values.size());
    bool equal = true;
    for (std::size_t i = 0; i < codes.size(); ++i)
      equal = equal && to_float(e4m3{codes[i]}) * scales[i / 128] == values[i];
    CHECK(equal);
  }
  Exported::run(state.import("state", "runs", "back"));
  Exported::run("checkpoint diff " + state.file("runs") + " " + state.file("back"));
  Exported::run(coded +
                "--world threads:4 --stage 3 --grid 2x1x2 --steps 4 --resume --checkpoint " +
                state.file("back") + " --dump " + state.file("one"));
  Exported::run(coded + "--world self --steps 4 --resume --checkpoint " + state.file("runs") +
                " --dump " + state.file("two"));
  Exported::run("diff " + state.file("one") + " " + state.file("two"));
}

TEST_CASE("nightly: codes in files: tensors longer than one chunk") {
  // 1,050 x 1,050: four full chunks and a part, whose last block has 36 elements.
  const Exported state(
      "train --workload byte_gpt_tiny --dtype bf16 --exp-avg-dtype e4m3 --exp-avg-sq-dtype fp16 ",
      "[model]\nwidth = 1050\nheads = 3\nlayers = 1\nhidden = 8\ncontext = 4\n"
      "[run]\nmicro_batches = 1\n");
  Exported::run(state.import("state", "runs", "back"));
  Exported::run("checkpoint diff " + state.file("runs") + " " + state.file("back"));
  state.change("values", [](NamedTensor& tensor) { return !is_stored_form(tensor.spec.name); });
  Exported::run(state.import("values", "runs", "again"));
  Exported::run("checkpoint export " + state.file("again") + " -o " + state.file("stored"));
  const std::string tensor = "block0.attention.key.weight";
  const auto values = values_of<float>(state.path("values"), "exp_avg_sq." + tensor);
  const auto codes = values_of<std::uint16_t>(state.path("stored"), "exp_avg_sq_code." + tensor);
  REQUIRE(codes.size() == 1050 * 1050);
  int wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    wrong += codes[i] == to_fp16(values[i] * scale_of(values, i, 65504)).bits ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE("codes in files: values alone are stored by the largest of their blocks") {
  const Exported state;
  state.change("values", [](NamedTensor& tensor) {
    if (is_stored_form(tensor.spec.name)) return false;
    // Another state: no multiple of the stored one, and a block of zeros.
    if (tensor.spec.name.rfind("exp_avg", 0) != 0) return true;
    auto* const floats = reinterpret_cast<float*>(tensor.bytes.data());
    for (std::size_t i = 0; i < tensor.bytes.size() / 4; ++i)
      floats[i] = i < 128 ? (i % 2 == 0 ? 0.0F : -0.0F) : floats[i] * 1.7F;
    return true;
  });
  Exported::run(state.import("values", "runs", "back"));
  Exported::run("checkpoint export " + state.file("back") + " -o " + state.file("stored"));
  const std::string given = state.path("values"), stored = state.path("stored");
  for (const std::string& tensor : tensors) {
    CAPTURE(tensor);
    const auto exp_avg = values_of<float>(given, "exp_avg." + tensor);
    const auto exp_avg_sq = values_of<float>(given, "exp_avg_sq." + tensor);
    const auto codes = values_of<std::uint8_t>(stored, "exp_avg_code." + tensor);
    const auto codes_sq = values_of<std::uint16_t>(stored, "exp_avg_sq_code." + tensor);
    const auto scales = values_of<float>(stored, "exp_avg_scale." + tensor);
    const auto scales_sq = values_of<float>(stored, "exp_avg_sq_scale." + tensor);
    int wrong = 0;
    for (std::size_t i = 0; i < exp_avg.size(); ++i) {
      const float scale = scale_of(exp_avg, i, 448), scale_sq = scale_of(exp_avg_sq, i, 65504);
      wrong += codes[i] == nearest_e4m3(exp_avg[i] * scale).bits ? 0 : 1;
      wrong += codes_sq[i] == to_fp16(exp_avg_sq[i] * scale_sq).bits ? 0 : 1;
      wrong += scales[i / 128] == 1 / scale && scales_sq[i / 128] == 1 / scale_sq ? 0 : 1;
    }
    CHECK(wrong == 0);
    CHECK(std::count_if(codes.begin() + 128, codes.end(), [](std::uint8_t bits) {
            return bits % 128 != 0;
          }) > static_cast<std::ptrdiff_t>(codes.size() / 4));
  }
  // A training continues from it.
  Exported::run(coded + "--world threads:3 --stage 1 --steps 3 --resume --checkpoint " +
                state.file("back"));
}

TEST_CASE(
    "codes in files: fp32 state is imported from values, and exported as values for coded state") {
  const Exported state;
  const Exported plain(training);
  Exported::run("checkpoint import " + state.file("state") + " --like " + plain.file("runs") +
                " -o " + plain.file("back"));
  Exported::run("checkpoint export " + plain.file("back") + " -o " + plain.file("values"));
  for (const std::string& tensor : tensors) {
    CHECK(values_of<float>(plain.path("values"), "exp_avg." + tensor) ==
          values_of<float>(state.path("state"), "exp_avg." + tensor));
  }
  Exported::run("checkpoint import " + plain.file("state") + " --like " + state.file("runs") +
                " -o " + state.file("back"));
  Exported::run("checkpoint export " + state.file("back") + " -o " + state.file("stored"));
  for (const std::string& tensor : tensors) {
    CAPTURE(tensor);
    const auto values = values_of<float>(plain.path("state"), "exp_avg." + tensor);
    const auto codes = values_of<std::uint8_t>(state.path("stored"), "exp_avg_code." + tensor);
    int wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      wrong += codes.at(i) == nearest_e4m3(values[i] * scale_of(values, i, 448)).bits ? 0 : 1;
    CHECK(wrong == 0);
  }
}

TEST_CASE(
    "codes in files: a stored form that is not whole, not its values, or another format's is "
    "refused") {
  const Exported state;
  const auto refused = [&](const std::string& name, const std::string& why) {
    expect_refusal(state.import(name, "runs", "out"), why);
    CHECK(run_cli("checkpoint verify " + state.file("out")).exit_code != 0);
  };
  state.change("no_code",
               [](NamedTensor& tensor) { return tensor.spec.name != "exp_avg_code.head.weight"; });
  refused("no_code", "has no tensor 'exp_avg_code.head.weight'");
  state.change("no_scale", [](NamedTensor& tensor) {
    return tensor.spec.name != "exp_avg_sq_scale.head.weight";
  });
  refused("no_scale", "has no tensor 'exp_avg_sq_scale.head.weight'");
  state.change("other_value", [](NamedTensor& tensor) {
    if (tensor.spec.name == "exp_avg.head.weight")
      reinterpret_cast<float*>(tensor.bytes.data())[200] += 1;
    return true;
  });
  refused("other_value",
          "has, of element 200 of 'exp_avg.head.weight', a value that is not its code times");
  state.change("not_a_number", [](NamedTensor& tensor) {
    if (tensor.spec.name == "exp_avg_scale.head.weight")
      reinterpret_cast<float*>(tensor.bytes.data())[1] = std::numeric_limits<float>::quiet_NaN();
    return true;
  });
  refused("not_a_number",
          "has, of element 128 of 'exp_avg.head.weight', a value that is not its code times");
  state.change("short_scale", [](NamedTensor& tensor) {
    if (tensor.spec.name != "exp_avg_scale.head.weight") return true;
    tensor.spec.shape[0] -= 1;
    tensor.bytes.resize(tensor.bytes.size() - 4);
    return true;
  });
  refused("short_scale", "has another dtype or shape for 'exp_avg_scale.head.weight'");
  const Exported halves(training + "--exp-avg-dtype fp16 --exp-avg-sq-dtype fp16 ");
  expect_refusal("checkpoint import " + state.file("state") + " --like " + halves.file("runs") +
                     " -o " + halves.file("out"),
                 "has another dtype or shape for 'exp_avg_code.");
}

TEST_CASE("codes in files: a checkpoint whose settings do not describe its codes is damaged") {
  const Exported state;
  const std::string manifest = state.path("runs") + "/step-00000002/manifest.json";
  const CheckpointManifest whole = parse_manifest(read_file(manifest), manifest);
  const auto refused = [&](const Json& settings, const std::string& why) {
    CheckpointManifest other = whole;
    other.about["settings"] = settings;
    std::ofstream(manifest) << manifest_text(other);
    expect_refusal("checkpoint export " + state.file("runs") + " -o " + state.file("out"), why, 7);
    expect_refusal(state.import("state", "runs", "back"), why, 7);
  };
  refused(Json::array(), "has a \"settings\" that is not a text: []");
  refused("[optimizer", "does not specify the formats of its state");
  refused("[optimizer]\nexp_avg_dtype = 'e5m3'\n", "does not specify the formats of its state");
  refused("[optimizer]\nexp_avg_dtype = 'bf16'\n", "has scales of exp_avg, and settings without");
}
