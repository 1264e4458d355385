// Rules of tensors: both orders, by hand; shadowed rules, patterns without a match, traps.

#include <doctest.h>

#include <string>
#include <vector>

#include "tests/verification/tools/quantize/refused.hpp"
#include "verification/tools/quantize/assignment.hpp"

namespace assignment_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

const std::string configs =
    "configs:\n  a: {format: bf16}\n  b: {format: e4m3, recipe: "
    "delayed}\nmatchers:\n";  // the next line is 5

std::string matcher(const std::string& name, const std::string& pattern, const std::string& config,
                    const std::string& rest = ", enabled: true") {
  return "  " + name + ": {type: glob, pattern: \"" + pattern + "\", config: " + config + rest +
         "}\n";
}

std::vector<std::string> layers(int count) {
  std::vector<std::string> names = {"embed.weight"};
  for (int i = 0; i < count; ++i) {
    for (const char* part : {".mlp.up.weight", ".mlp.up.bias", ".mlp.down.weight"})
      names.push_back("layers." + std::to_string(i) + part);
  }
  return names;
}

QuantizationAssignment assigned(const std::string& text, const std::vector<std::string>& tensors) {
  return assign(parse_quantization(text, "f.yaml"), tensors, "the model");
}

void refused(const std::string& text, std::int64_t line, const std::string& mentions,
             int num_layers = 2) {
  CAPTURE(text);
  expect_refused([&] { assigned(text, layers(num_layers)); }, line, mentions);
}

const TensorQuantization& of(const QuantizationAssignment& made, const std::string& tensor) {
  for (const TensorQuantization& t : made.tensors) {
    if (t.tensor == tensor) return t;
  }
  throw std::out_of_range(tensor);
}

}  // namespace

TEST_CASE("megatron: the first matcher that is enabled and matches decides") {
  const auto made = assigned(configs + matcher("idle", "*", "a", "") +
                                 matcher("out", "*", "a", ", enabled: false") +
                                 matcher("up", "*.up", "b") + matcher("layer", "layers.1.*", "a"),
                             layers(2));
  CHECK(of(made, "layers.1.mlp.up.weight").payload->format == QuantFormat::e4m3);
  CHECK(of(made, "layers.1.mlp.up.bias").flag_rule == 2);  // a module's tensors share a rule
  CHECK(of(made, "layers.1.mlp.up.weight").matching == std::vector<std::size_t>{2, 3});
  CHECK(of(made, "layers.1.mlp.down.weight").payload->format == QuantFormat::bf16);
  CHECK_FALSE(of(made, "layers.0.mlp.down.weight").payload.has_value());
  CHECK_FALSE(of(made, "embed.weight").flag_rule.has_value());
  CHECK(made.uses[0].matches == 0);
  CHECK(made.uses[3].matches == 3);
  CHECK(made.uses[3].decides == 1);
  CHECK(of(made, "layers.1.mlp.up.bias").layer == 1);
  CHECK_FALSE(of(made, "embed.weight").layer.has_value());
}

TEST_CASE("megatron: every tensor has a copy of its own") {
  auto made = assigned(configs + matcher("all", "*", "b"), layers(1));
  made.tensors[0].payload->history = 7;
  CHECK(made.tensors[1].payload->history == 1024);
}

TEST_CASE("modelopt: later entries override, a payload replaces, a flag toggles") {
  const std::string list =
      "quant_cfg:\n"
      "- {quantizer_path: \"*\", enable: false}\n"
      "- {quantizer_path: \"*weight_quantizer\", cfg: {format: e4m3, recipe: delayed, history: "
      "16}}\n"
      "- {quantizer_path: \"*down*\", enable: false}\n"
      "- {quantizer_path: \"layers.1.mlp.up.weight*\", cfg: {format: e4m3, recipe: delayed}}\n"
      "- {quantizer_path: \"layers.1.mlp.down*\", enable: true}\n"
      "- {quantizer_path: \"embed*\", cfg: {format: bf16}, enable: false}\n";
  const auto made = assigned(list, layers(2));
  CHECK(of(made, "layers.0.mlp.up.weight").payload->history == 16);
  CHECK(of(made, "layers.1.mlp.up.weight").payload->history == 1024);  // replaced, not merged
  CHECK_FALSE(of(made, "layers.0.mlp.down.weight").payload.has_value());
  const TensorQuantization& back =
      of(made, "layers.1.mlp.down.weight");  // off, and on again with its payload
  CHECK(back.payload->history == 16);
  CHECK(back.payload_rule == 1);
  CHECK(back.flag_rule == 4);
  CHECK_FALSE(of(made, "layers.0.mlp.up.bias").on);
  CHECK(of(made, "layers.0.mlp.up.bias").flag_rule == 0);
  CHECK_FALSE(of(made, "embed.weight").payload.has_value());
  CHECK(made.traps.empty());
}

TEST_CASE("the two orders are opposite") {
  const auto first =
      assigned(configs + matcher("one", "*.up", "a") + matcher("all", "*", "b"), layers(1));
  const auto last = assigned(
      "quant_cfg:\n- {quantizer_path: \"*\", cfg: {format: e4m3, recipe: delayed}}\n"
      "- {quantizer_path: \"*.up.*\", cfg: {format: bf16}}\n",
      layers(1));
  for (std::size_t i = 0; i < first.tensors.size(); ++i)
    CHECK(first.tensors[i].payload->format == last.tensors[i].payload->format);
}

TEST_CASE("shadowed rules are reported with the rules before them") {
  refused(configs + matcher("all", "*", "a") + matcher("up", "*up", "b"), 6,
          "matchers.up is shadowed: it decides nothing for the 4 tensors that it matches "
          "(matchers.all in "
          "line 5 does");
  refused(configs + matcher("u", "*up", "a") + matcher("d", "*down", "b") +
              matcher("mlp", "*mlp*", "b"),
          7, "matchers.u in line 5, matchers.d in line 6 do");
  refused(
      "quant_cfg:\n- {quantizer_path: \"*up*\", cfg: {format: bf16}}\n- {quantizer_path: \"*\", "
      "enable: "
      "false}\n",
      2, "quant_cfg[0] is shadowed");
  refused(
      "quant_cfg:\n- {quantizer_path: \"*up*\", enable: false}\n- {quantizer_path: \"*\", cfg: "
      "{format: "
      "bf16}}\n",
      2, "move it behind quant_cfg[1]");
}

TEST_CASE("patterns without a match are refused with the nearest one that has one") {
  refused(configs + matcher("x", "*.mlp.upp", "a"), 5, "did you mean '*.mlp.up'?");
  refused(configs + matcher("x", "mlp.up", "a"), 5, "did you mean '*mlp.up'?");
  refused(configs + matcher("x", "layers.0", "a"), 5, "did you mean 'layers.0*'?");
  refused(configs + matcher("x", "*MLP*", "a"), 5, "did you mean '*mlp*'?");
  refused(configs + matcher("x", "*.layer.*", "a"), 5, "did you mean '*layers.*'?");
  refused(configs + matcher("x", "*.up.weight", "a"), 5, "leave out the tensor's own name");
  refused(configs + matcher("x", "attention", "a"), 5, "the first path is 'embed'");
  refused(configs + matcher("x", "*[9]", "a"), 5, "matches none of the 7 tensors of the model");
  refused("quant_cfg:\n- {quantizer_path: \"*input_quantizer\", enable: false}\n", 2,
          "quant_cfg[0].quantizer_path");
  refused("quant_cfg:\n- {quantizer_path: \"*\", enable: true}\n", 2,
          "turns on 'embed.weight' (no entry before it");
}

TEST_CASE("a disabled matcher has no effect, but its config must exist") {
  CHECK_NOTHROW(
      assigned(configs + matcher("x", "nothing", "a", "") + matcher("y2", "*", "b"), layers(1)));
  refused(configs + matcher("x", "*", "c", ", enabled: false"), 5,
          "there is no config of that name");
  refused(configs + matcher("x", "*", "bb"), 5, "name one of configs, or add it there");
}

TEST_CASE("the trap of layer 1 and layer 10") {
  const std::string text = configs + matcher("one", "*layers.1*", "a") + matcher("all", "*", "b");
  CHECK(assigned(text, layers(10)).traps.empty());  // layer 10 does not exist
  const auto made = assigned(text, layers(12));
  CHECK(of(made, "layers.10.mlp.up.weight").payload->format == QuantFormat::bf16);
  REQUIRE(made.traps.size() == 1);
  CHECK(made.traps[0].rule == 0);
  CHECK(made.traps[0].line == 5);
  CHECK(made.traps[0].text ==
        "'*layers.1*' takes layers.10, layers.11 besides layers.1, for * takes digits too: 6 of "
        "its 9 "
        "tensors, first "
        "'layers.10.mlp.up.weight'; '*layers.1.*' takes layers.1 alone");
  CHECK(assigned(configs + matcher("one", "*layers.1.*", "a"), layers(12)).traps.size() ==
        1);  // config b is unused
  const auto front =
      assigned(configs + matcher("one", "*1.mlp*", "a") + matcher("all", "*", "b"), layers(12));
  REQUIRE(front.traps.size() == 1);
  CHECK(front.traps[0].text.find("takes 11 besides 1,") != std::string::npos);
  CHECK(assigned(configs + matcher("some", "*layers.1[01]*", "a") + matcher("all", "*", "b"),
                 layers(12))
            .traps.empty());
}

TEST_CASE("traps of whole files") {
  const auto off =
      assigned(configs + matcher("x", "*", "a", "") + matcher("y2", "*up", "b"), layers(1));
  REQUIRE(off.traps.size() == 2);
  CHECK(off.traps[0].text.find("enabled is not given, and false then") != std::string::npos);
  CHECK(off.traps[1].text == "config 'a' is used by no matcher that is on");
  CHECK(off.traps[1].line == 2);
  CHECK(assigned(configs + matcher("x", "*", "a", ", enabled: false") + matcher("y2", "*up", "b"),
                 layers(1))
            .traps.size() == 1);
  const auto open =
      assigned("quant_cfg:\n- {quantizer_path: \"*up*\", cfg: {format: bf16}}\n", layers(1));
  REQUIRE(open.traps.size() == 1);
  CHECK(open.traps[0].text.find("2 tensors match no entry, first 'embed.weight'") !=
        std::string::npos);
}

TEST_CASE("layers: numbers are those of the path") {
  CHECK(layer_number("decoder.layers.12.mlp") == 12);
  CHECK(layer_number("layers.x.layers.3.y") == 3);
  CHECK_FALSE(layer_number("layers.").has_value());
  CHECK_FALSE(layer_number("block3.mlp").has_value());
  CHECK_FALSE(layer_number("layers.99999999999").has_value());
  CHECK(quantization_path(QuantSemantics::megatron, "a.b.weight") == "a.b");
  CHECK(quantization_path(QuantSemantics::megatron, "weight") == "weight");
  CHECK(quantization_path(QuantSemantics::modelopt, "a.b.weight") == "a.b.weight_quantizer");
}

}  // namespace assignment_test
