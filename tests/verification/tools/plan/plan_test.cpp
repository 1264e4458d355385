// zeroproof plan: models from descriptions and headers, tables, picture, and one sentence for
// invalid input.

#include <doctest.h>

#include <algorithm>
#include <sstream>

#include "common/io/safetensors/safetensors.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "verification/tools/plan/model.hpp"
#include "verification/tools/plan/plan.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

const char* const two_layers = R"(
[[tensor]]
name = "embedding"
shape = [100, 16]

[[tensor]]
name = "block{i}.up"
shape = [16, 64]
tp = 1
repeat = 2

[[tensor]]
name = "block{i}.bias"
shape = [64]
tp = 0
repeat = 2

[[tensor]]
name = "norm"
shape = []
)";

/// Elements open and close in order, attributes are quoted, and text has no bare & or <.
bool well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < xml.size(); ++at) {
    if (xml[at] == '&' && xml.find(';', at) - at > 5) return false;
    if (xml[at] != '<') continue;
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos || std::count(tag.begin(), tag.end(), '"') % 2 != 0)
      return false;
    at = end;
    if (tag.front() == '?' || tag.back() == '/') continue;
    const std::string name = tag.substr(0, tag.find(' '));
    if (name.front() != '/') {
      open.push_back(name);
    } else if (open.empty() || open.back() != name.substr(1)) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

}  // namespace

TEST_CASE(
    "model description: repeated neighbours are ordered by layer, and splits give the tensors of a "
    "TP rank") {
  const PlannedModel model = parse_model_toml(two_layers, "model.toml");
  std::vector<std::string> names;
  for (const PlannedTensor& tensor : model.tensors) names.push_back(tensor.spec.name);
  CHECK(names == std::vector<std::string>{"embedding", "block0.up", "block0.bias", "block1.up",
                                          "block1.bias", "norm"});
  CHECK(model.numel() == 1600 + 2 * (1024 + 64) + 1);
  const std::vector<ParamSpec> cut = tp_shapes(model, 4);
  CHECK(cut[0].shape == std::vector<std::int64_t>{100, 16});
  CHECK(cut[1].shape == std::vector<std::int64_t>{16, 16});
  CHECK(cut[2].shape == std::vector<std::int64_t>{16});
  const FlatLayout layout(tp_shapes(model, 1));
  CHECK(named_units(layout) ==
        std::vector<FlatRange>{{0, 2048}, {2048, 4096}, {4096, 6144}, {6144, 7168}});
}

TEST_CASE("byte_gpt's units by name: embeddings, blocks, and the final norm with the head") {
  const FlatLayout layout(tp_shapes(load_model("byte_gpt"), 1));
  const std::vector<FlatRange> units = named_units(layout);
  CHECK(units.size() == 6);
  CHECK(units.front().begin == 0);
  CHECK(units[1].begin == layout.tensors()[2].begin);
  CHECK(units[5].begin == layout.tensors()[2 + 4 * 16].begin);
  CHECK(units.back().end == layout.padded_numel());
}

TEST_CASE("a recording of gradients is no model") {
  const TemporaryFolder folder;
  const std::string file = folder.file("gradients.safetensors");
  REQUIRE(run_cli("record --workload byte_gpt_tiny --steps 1 --micro-batches 1 " + quoted(file))
              .exit_code == 0);
  expect_refusal("plan " + quoted(file), "is a recording");
  expect_refusal("plan " + quoted(file), "as if they were parameters");
}

TEST_CASE("16,384 ranks in 100 columns, with extremes and all ways of counting") {
  const TemporaryFolder folder;
  const std::string file = folder.write("big.toml", R"(
[[tensor]]
name = "embedding"
shape = [50264, 12288]
tp = 0
[[tensor]]
name = "block{i}.weight"
shape = [12288, 147456]
tp = 1
repeat = 96
[[tensor]]
name = "norm"
shape = [12288]
)");
  const CliResult result = run_cli("plan " + quoted(file) +
                                   " --grid 2048x1x8 --count contract,zero-paper,deepspeed,claims");
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 100, line);
  for (const char* part : {"16,384 ranks", "2,048 share", "smallest rank", "largest rank",
                           "TP parts", "16 = 2 + 2 + 12", "not measured", "erratum 42",
                           "2 P + 18 P / d", "alpha 5 us", "[ZeRO:memory]"}) {
    CHECK_MESSAGE(result.out.find(part) != std::string::npos, std::string(part));
  }
  CHECK(result.out.find('\033') == std::string::npos);
}

TEST_CASE("files: JSON of every stage and a well-formed picture, with any names") {
  const TemporaryFolder folder;
  const std::string file = folder.write("a<b>&\"c\".toml", two_layers);
  const std::string outputs =
      " --json " + quoted(folder.file("p.json")) + " --svg " + quoted(folder.file("p.svg"));
  CHECK(run_cli("plan " + quoted(file) + " --grid 3x2x2 --rule sgd --momentum 0.9" + outputs)
            .exit_code == 0);
  const nlohmann::json json = nlohmann::json::parse(folder.read("p.json"));
  CHECK(json.at("schema") == "zeroproof-plan/1");
  CHECK(json.at("stages").size() == 4);
  for (const nlohmann::json& stage : json.at("stages")) {
    const nlohmann::json& rank = stage.at("largest");
    std::int64_t sum = 0;
    for (const auto& bytes : rank.at("at_peak_of_sum")) sum += bytes.get<std::int64_t>();
    CHECK(rank.at("total_peak") == sum);
    CHECK(stage.at("smallest").at("total_peak") <= rank.at("total_peak"));
    CHECK(rank.at("peak").at("state") == rank.at("peak").at("master"));  // momentum alone
  }
  const std::string svg = folder.read("p.svg");
  CHECK(well_formed(svg));
  CHECK(svg.find("a&lt;b&gt;&amp;&quot;c&quot;.toml") != std::string::npos);
  CHECK(svg.find("stage 3") != std::string::npos);
}

TEST_CASE("a plan that is small enough is measured, to the byte") {
  const TemporaryFolder folder;
  const std::string out = " --json " + quoted(folder.file("p.json"));
  for (const char* flags :
       {"byte_gpt_tiny --grid 3x1x1", "byte_gpt_tiny --grid 4x2x1 --rule sgd --momentum 0.9",
        "byte_gpt_tiny --grid 4x1x1 --instances 2 --grad-dtype bf16 --micro-batches 7",
        "byte_gpt_tiny --grid 4x1x1 --windows params --bucket 4096",
        "byte_gpt_tiny --grid 3x1x1 --dtype e4m3 --columnwise",
        "byte_gpt_tiny --grid 3x1x1 --dtype e4m3 --scale-recipe mxfp8 --columnwise",
        "byte_gpt_tiny --grid 4x1x1 --windows params --dtype e5m2 --scale-recipe blockwise "
        "--scale-blocks "
        "1x128 "
        "--columnwise",
        "byte_gpt_tiny --grid 4x1x1 --dtype e5m2 --scale-recipe delayed --amax-history 16 "
        "--instances 2",
        "byte_gpt_tiny --grid 3x1x1 --bucket 4096 --offload 0.37 --offload-chunk 999",
        "byte_gpt_tiny --grid 4x1x1 --offload 0.6 --offload-order tensors --offload-place file",
        "byte_gpt_tiny --grid 2x1x1 --rule sgd --offload 1 --offload-place file --offload-chunk "
        "5000 "
        "--offload-overlap off",
        "byte_gpt_tiny --grid 3x1x1 --offload 0.37 --offload-grads on",
        "byte_gpt_tiny --grid 2x1x1 --offload 0.6 --offload-order tensors --offload-place file "
        "--offload-grads on",
        "byte_gpt_tiny --grid 2x1x1 --dtype e4m3 --offload 0.5 --offload-chunk 3000",
        "byte_gpt_tiny --grid 3x1x1 --exp-avg-dtype e4m3 --exp-avg-sq-dtype fp16 --offload 0.37 "
        "--offload-chunk 999",
        "byte_gpt_tiny --grid 2x1x1 --exp-avg-dtype bf16 --master-dtype bf16 --offload 0.6 "
        "--offload-place "
        "file --offload-order tensors",
        "byte_gpt_tiny --grid 2x1x1 --exp-avg-sq-dtype fp16 --offload 1 --offload-place file "
        "--offload-chunk 700 --offload-grads on",
        "byte_gpt_tiny --grid 3x1x1 --dtype e4m3 --scale-recipe mxfp8 --columnwise --offload "
        "0.6"}) {
    CAPTURE(flags);
    const CliResult run = run_cli(std::string("plan ") + flags + " --measure" + out);
    CHECK(run.exit_code == 0);
    CHECK(widest(run.out) <= 100);
    CHECK(run.out.find("stage 3: measured in a run of two steps") != std::string::npos);
    const nlohmann::json json = nlohmann::json::parse(folder.read("p.json"));
    for (const nlohmann::json& stage : json.at("stages")) {
      const nlohmann::json& measured = stage.at("measured");
      CHECK(measured.at("bytes_apart") == 0);
      for (const char* rank : {"smallest", "largest"}) {
        CHECK(measured.at(rank).at("total_peak") == stage.at(rank).at("total_peak"));
        CHECK(measured.at(rank).at("peak") == stage.at(rank).at("peak"));
        const bool offloads = std::string(flags).find("--offload") != std::string::npos;
        CHECK(stage.at(rank).contains("offload") == offloads);
      }
      CHECK(measured.at("largest").at("sent_bytes") > 0);
    }
  }
  CHECK(run_cli("plan byte_gpt_tiny" + out).exit_code == 0);
  CHECK_FALSE(nlohmann::json::parse(folder.read("p.json")).at("stages").at(0).contains("measured"));
}

TEST_CASE("a plan of split matrices is measured, to the byte") {
  const TemporaryFolder folder;
  const std::string muon = "[optimizer]\nrule = \"muon\"\nmomentum = 0.95\n";
  const std::string config = quoted(folder.write(
      "splits.toml",
      muon +
          "[[matrix_split]]\nname = \"heads\"\nmatch = [\"*.query.weight\"]\ncolumns = [5, 5, 5]\n"
          "[[matrix_split]]\nname = \"gate\"\nmatch = [\"*.up.weight\"]\ncolumns = [1, 36]\n"));
  const std::string plan = "plan byte_gpt_tiny --grid 3x1x1 --rule muon --measure --json " +
                           quoted(folder.file("p.json")) + " ";
  for (const std::string owners : {"every", "balanced"}) {
    CAPTURE(owners);
    std::vector<double> products;  // of Newton-Schulz, on one rank
    for (const std::string& splits : {std::string(), " --config " + config}) {
      const CliResult run = run_cli(plan + "--matrix-owners " + owners + splits);
      CAPTURE(run.out);
      CHECK(run.exit_code == 0);
      CHECK((run.out.find("; split: heads, gate") != std::string::npos) == !splits.empty());
      const nlohmann::json json = nlohmann::json::parse(folder.read("p.json"));
      CHECK(json.at("settings").contains("matrix_splits") == !splits.empty());
      for (const nlohmann::json& stage : json.at("stages"))
        CHECK(stage.at("measured").at("bytes_apart") == 0);
      products.push_back(json.at("stages").at(1).at("matrices").at("products").at("mean"));
    }
    CHECK(products.at(0) > products.at(1));
  }
  expect_refusal("plan byte_gpt_tiny --config " + config, "without --owners and --rule muon");
  expect_refusal(
      "plan byte_gpt_tiny --rule muon --config " + quoted(folder.write("none.toml", muon)),
      "has no [[matrix_split]]");
}

TEST_CASE("a plan of distributed matrices has their exchange, and needs TP ranks") {
  const std::string flag = " --matrix-tensor-parallel distributed";
  const std::string plan = "plan byte_gpt --grid 2x1x4 --stage 1 --rule muon";
  const CliResult distributed = run_cli(plan + flag), duplicated = run_cli(plan);
  CHECK(distributed.exit_code == 0);
  CHECK(widest(distributed.out) <= 100);
  for (const char* line :
       {"  columns of X ", "  norms of matrices ", "  partial folds ", "  rows of A and B "}) {
    CHECK(distributed.out.find(line) != std::string::npos);
    CHECK(duplicated.out.find(line) == std::string::npos);
  }
  CHECK(distributed.out.find("  TP directions ") == std::string::npos);
  CHECK(duplicated.out.find("  TP directions ") != std::string::npos);
  expect_refusal(run_cli("plan byte_gpt --grid 4x1x1 --rule muon" + flag), "with one TP rank");
  expect_refusal(run_cli("plan byte_gpt --grid 1x1x2" + flag), "with the rule adamw");
}

TEST_CASE("the measured bytes are compared with the plan figure by figure") {
  StagePlan stage;
  CHECK(bytes_apart(stage) == 0);
  MeasuredStage& measured = stage.measured.emplace();
  measured.most[0] = 3;
  measured.least[1] = 5;
  measured.largest.total_peak = 7;
  measured.sent_bytes = 11;
  CHECK(bytes_apart(stage) == 3 + 5 + 7 + 11);
}

TEST_CASE("a plan that cannot be run here is not measured, in a sentence") {
  for (const char* flags :
       {"byte_gpt --grid 65x1x1", "byte_gpt --grid 1x1x2", "byte_gpt --space device",
        "byte_gpt --clip-groups 2", "byte_gpt --grid 8x1x1 --micro-batches 1000"}) {
    CAPTURE(flags);
    expect_refusal(run_cli(std::string("plan ") + flags + " --measure"),
                   "--measure was given with");
  }
  expect_refusal(run_cli("plan byte_gpt --owners --measure"), "--measure was given with --owners");
}

TEST_CASE("the header of a safetensors file is enough") {
  const TemporaryFolder folder;
  const std::string file = folder.file("model.safetensors");
  const std::vector<float> zeros(12 * 8);
  SafetensorsWriter writer(
      file, {{"up.weight", SafeDType::f32, {12, 8}}, {"up.bias", SafeDType::f32, {12}}});
  writer.write("up.weight", std::as_bytes(Span<const float>(zeros)));
  writer.write("up.bias", std::as_bytes(Span<const float>(zeros).first(12)));
  writer.finish();
  const CliResult result = run_cli("plan " + quoted(file) + " --grid 1x1x2");
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("does not specify the split dimensions of tensor parallelism") !=
        std::string::npos);
}

TEST_CASE("plan: a model in parts is complete, or refused") {
  const TemporaryFolder folder;
  const auto write_part = [&](const std::string& name, const std::vector<std::string>& tensors) {
    const std::vector<float> zeros(12 * 8);
    std::vector<SafeTensorSpec> specs;
    for (const std::string& tensor : tensors) specs.push_back({tensor, SafeDType::f32, {12, 8}});
    SafetensorsWriter writer(folder.file(name), specs);
    for (const std::string& tensor : tensors)
      writer.write(tensor, std::as_bytes(Span<const float>(zeros)));
    writer.finish();
  };
  const std::string first = "model-00001-of-00002.safetensors",
                    second = "model-00002-of-00002.safetensors";
  const auto index = [&](const std::string& map) {
    folder.write("model.safetensors.index.json", "{\"weight_map\": {" + map + "}}");
  };
  const std::string map =
      R"("a": ")" + first + R"(", "b": ")" + first + R"(", "c": ")" + second + R"(")";
  const std::string index_file = folder.file("model.safetensors.index.json");
  write_part(first, {"a", "b"});
  write_part(second, {"c"});
  index(map);
  expect_refusal("plan " + quoted(folder.file(first)), "is one part of a model");
  for (const std::string& what : {index_file, folder.file(".")}) {
    const PlannedModel model = load_model(what);
    CHECK(model.tensors.size() == 3);
    CHECK(model.numel() == 3 * 96);
  }
  CHECK(run_cli("plan " + quoted(folder.file(".")) + " --grid 2x1x1").exit_code == 0);
  index(R"("a": ")" + first + R"(", "b": ")" + first + R"(")");
  CHECK(load_model(index_file).numel() == 2 * 96);  // the second part is no part of it
  index(R"("a": ")" + first + R"(", "c": ")" + second + R"(")");
  expect_refusal("plan " + quoted(index_file), "has 'b', which");
  index(map + R"(, "d": ")" + second + R"(")");
  expect_refusal("plan " + quoted(index_file), "has 1 of the 2 tensors");
  index(map + R"(, "e": "model-00003-of-00003.safetensors")");
  expect_refusal("plan " + quoted(index_file), "model-00003-of-00003.safetensors");
  index(R"("a": "../up.safetensors")");
  expect_refusal("plan " + quoted(index_file), "names the file '../up.safetensors'");
  index("");
  expect_refusal("plan " + quoted(index_file), "lists no tensor");
  folder.write("model.safetensors.index.json", "{\"weight_map\": {\"a\": 1}}");
  expect_refusal("plan " + quoted(index_file), "does not describe a model");
  folder.write("model.safetensors.index.json", "{");
  expect_refusal("plan " + quoted(index_file), "does not describe a model");
  const TemporaryFolder empty;
  expect_refusal("plan " + quoted(empty.file(".")), "has no model.safetensors.index.json");
}

TEST_CASE("plan: config.json has the parameters of its architecture") {
  // Numbers of parameters as published with the models.
  const std::pair<const char*, std::int64_t> models[] = {
      {R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
           "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
           "vocab_size": 128256, "tie_word_embeddings": false})",
       8030261248},
      {R"({"architectures": ["MistralForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
           "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
           "vocab_size": 32000, "head_dim": null})",
       7241732096},
      {R"({"architectures": ["Qwen2ForCausalLM"], "hidden_size": 896, "intermediate_size": 4864,
           "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
           "vocab_size": 151936, "tie_word_embeddings": true})",
       494032768},
      {R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 768, "n_layer": 12, "n_head": 12,
           "n_positions": 1024, "vocab_size": 50257, "n_inner": null})",
       124439808}};
  const TemporaryFolder folder;
  for (const auto& one : models) {
    const std::int64_t numel = one.second;
    CAPTURE(numel);
    const std::string file = folder.write("config.json", one.first);
    const PlannedModel model = load_model(file);
    CHECK(model.numel() == numel);
    std::int64_t half = 0;
    for (const ParamSpec& spec : tp_shapes(model, 2)) half += spec.numel();
    CHECK(half < numel);
    CHECK(half > numel / 2);
    CHECK(load_model(folder.file(".")).numel() == numel);
  }
  const auto refused = [&](const char* text, const char* part) {
    expect_refusal("plan " + quoted(folder.write("config.json", text)), part);
  };
  refused(R"({"architectures": ["LamaForCausalLM"]})", "did you mean LlamaForCausalLM?");
  refused(R"({"architectures": []})", "architecture ''");
  refused(R"({"hidden_size": 1})", "does not describe a model");
  refused(R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 768.5})", "n_embd 768.5");
  refused(R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 0})", "n_embd 0");
  refused(R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 8, "n_positions": 8,
              "vocab_size": 8, "n_layer": 1000000})",
          "n_layer 1000000");
}

TEST_CASE("frequent errors of new users give one sentence") {
  const TemporaryFolder folder;
  const auto described = [&](const std::string& text) {
    return quoted(folder.write("model.toml", text));
  };
  expect_refusal("plan nothing.toml", "nothing.toml");
  expect_refusal("plan nothing.safetensors", "nothing.safetensors");
  expect_refusal("plan byte_gtp", "byte_gtp");
  expect_refusal("plan byte_gpt --grid 2x2x3", "2x2x3");
  expect_refusal("plan byte_gpt --grid 2x2", "2x2");
  expect_refusal("plan byte_gpt --grid 2x1x1x1", "2x1x1x1");
  expect_refusal("plan byte_gpt --grid 0x1x1", "0x1x1");
  expect_refusal("plan byte_gpt --grid 99999999999x1x1", "99999999999x1x1");
  expect_refusal("plan byte_gpt --grid 2x1x4 --world 16", "use 4x1x4");
  expect_refusal("plan byte_gpt --grid 16385x1x1", "16384");
  expect_refusal("plan byte_gpt --grid 4x1x1 --instances 3", "3 instances");
  expect_refusal("plan byte_gpt --stage 4", "4");
  expect_refusal("plan byte_gpt --bucket 1000", "1000");
  expect_refusal("plan byte_gpt --windows both", "both");
  expect_refusal("plan byte_gpt --space gpu", "gpu");
  expect_refusal("plan byte_gpt --space device --windows on", "--space device");
  expect_refusal("plan byte_gpt --grid 1x1x2 --exp-avg-dtype e4m3 --offload 0.5", "on 2 TP ranks");
  expect_refusal("plan byte_gpt --count papers", "papers");
  expect_refusal("plan byte_gpt --beta 0", "--beta");
  expect_refusal("plan byte_gpt --beta nan", "--beta");
  expect_refusal("plan byte_gpt --svg /dev/null/x", "/dev/null/x");
  expect_refusal("plan " + described("[[tensor]]\nname = \"a\"\nshape = [3, -1]\n"),
                 "model.toml:3");
  expect_refusal("plan " + described("[[tensor]]\nname = \"a\"\nshape = 3\n"), "model.toml:3");
  expect_refusal("plan " + described("[[tensor]]\nname = \"a\"\nshape = [0, 3]\n"),
                 "has an element");
  expect_refusal(
      "plan " +
          described("[[tensor]]\nname = \"a\"\nshape = [9000000000000000, 9000000000000000]\n"),
      "too large");
  expect_refusal("plan " + described("[[tensor]]\nname = \"a\"\nshapes = [3]\n"),
                 "did you mean shape?");
  expect_refusal("plan " + described("[[tensor]]\nname = \"a{i}\"\nshape = [3]\n"), "repeat");
  expect_refusal(
      "plan " +
          described(
              "[[tensor]]\nname = \"a\"\nshape = [3]\n[[tensor]]\nname = \"a\"\nshape = [3]\n"),
      "twice");
  expect_refusal("plan " + described("[[tensor]]\nname = \"a\"\nshape = [3]\ntp = 1\n"),
                 "model.toml:4");
  expect_refusal(
      "plan " + described("[[tensor]]\nname = \"a\"\nshape = [3]\ntp = 0\n") + " --grid 1x1x2",
      "'a'");
  expect_refusal("plan " + described("[[tensor]]\nname = \"a\"\nshape = [500000000, 1000000000]\n"),
                 "may not fit 64 bits");
  expect_refusal("plan " + described("[[tensor]\n"), "model.toml:1");
  expect_refusal("plan " + described("tensor = 3\n"), "tensor");
  expect_refusal("plan " + described(""), "no tensor");
}
