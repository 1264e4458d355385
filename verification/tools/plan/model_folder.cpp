#include "verification/tools/plan/model_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>

#include "common/base/error.hpp"
#include "common/io/files/regular_file.hpp"
#include "common/io/json.hpp"
#include "common/io/safetensors/safetensors_types.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cli/program/file_text.hpp"

namespace zeroproof::verification {
namespace {

namespace fs = std::filesystem;

/// Returns the result of `read` for the content of a JSON file.
template <class Read>
auto from_json(const std::string& path, const Read& read) {
  require_regular_file(path, "model description");
  const std::optional<std::string> text = file_text(path);
  ZP_CHECK(text.has_value(), ErrorCode::io, "model description " + path + " cannot be read",
           "there is nothing to plan for", "check the name and the permissions");
  try {
    return read(Json::parse(*text));
  } catch (const JsonError& error) {
    fail(ErrorCode::config, path + " does not describe a model: " + error.what(),
         "a plan needs names and shapes of tensors",
         "name an index or a config.json of Hugging Face");
  }
}

/// Sizes of a config.json.
class Sizes {
 public:
  Sizes(const Json& config, const std::string& path) : config_(config), path_(path) {}

  std::int64_t of(const char* key) const { return in_range(key, std::int64_t{1} << 24); }
  std::int64_t layers(const char* key) const { return in_range(key, 4096); }
  std::int64_t of(const char* key, std::int64_t otherwise) const {
    const bool given = config_.contains(key) && !config_.at(key).is_null();
    return given ? of(key) : otherwise;
  }
  bool flag(const char* key, bool otherwise) const {
    return config_.contains(key) ? config_.at(key).get<bool>() : otherwise;
  }

 private:
  std::int64_t in_range(const char* key, std::int64_t most) const {
    const Json& value = config_.at(key);
    const bool whole =
        value.kind() == Json::Kind::integer || value.kind() == Json::Kind::unsigned_integer;
    const std::int64_t size = whole ? value.get<std::int64_t>() : 0;
    ZP_CHECK(size >= 1 && size <= most, ErrorCode::config,
             path_ + " has " + key + " " + value.dump(), "it is a size of the model",
             "use a whole number from 1 to " + std::to_string(most));
    return size;
  }

  const Json& config_;
  const std::string& path_;
};

/// Matrices are [outputs, inputs]; tensor parallelism splits the outputs of the first matmul of a
/// pair, and the inputs of the second.
constexpr int whole = -1, outputs = 0, inputs = 1;

class Tensors {
 public:
  void add(const std::string& name, std::vector<std::int64_t> shape, int cut = whole) {
    model.tensors.push_back({{name, std::move(shape)}, cut});
  }
  PlannedModel model;
};

void add_llama(Tensors& all, const Sizes& sizes, bool qkv_bias_default, const std::string& path) {
  const std::int64_t width = sizes.of("hidden_size"), hidden = sizes.of("intermediate_size");
  const std::int64_t heads = sizes.of("num_attention_heads");
  const std::int64_t kv_heads = sizes.of("num_key_value_heads", heads);
  ZP_CHECK(width % heads == 0 || sizes.of("head_dim", 0) > 0, ErrorCode::config,
           path + " has hidden_size " + std::to_string(width) + " for " + std::to_string(heads) +
               " heads",
           "a head has hidden_size / num_attention_heads channels", "add head_dim");
  const std::int64_t head = sizes.of("head_dim", std::max<std::int64_t>(1, width / heads));
  const std::int64_t vocabulary = sizes.of("vocab_size");
  const bool qkv_bias = qkv_bias_default || sizes.flag("attention_bias", false);
  const bool output_bias = !qkv_bias_default && sizes.flag("attention_bias", false);
  const bool mlp_bias = sizes.flag("mlp_bias", false);
  all.add("model.embed_tokens.weight", {vocabulary, width});
  const std::int64_t layers = sizes.layers("num_hidden_layers");
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in, int cut,
                            bool bias) {
      all.add(layer + name + ".weight", {out, in}, cut);
      if (bias) all.add(layer + name + ".bias", {out}, cut == outputs ? 0 : whole);
    };
    linear("self_attn.q_proj", heads * head, width, outputs, qkv_bias);
    linear("self_attn.k_proj", kv_heads * head, width, outputs, qkv_bias);
    linear("self_attn.v_proj", kv_heads * head, width, outputs, qkv_bias);
    linear("self_attn.o_proj", width, heads * head, inputs, output_bias);
    linear("mlp.gate_proj", hidden, width, outputs, mlp_bias);
    linear("mlp.up_proj", hidden, width, outputs, mlp_bias);
    linear("mlp.down_proj", width, hidden, inputs, mlp_bias);
    all.add(layer + "input_layernorm.weight", {width});
    all.add(layer + "post_attention_layernorm.weight", {width});
  }
  all.add("model.norm.weight", {width});
  if (!sizes.flag("tie_word_embeddings", false)) all.add("lm_head.weight", {vocabulary, width});
}

/// GPT-2 stores matrices as [inputs, outputs]. Tensor parallelism splits query, key and value each;
/// here their fused matrix is split as a whole, which has the same sizes.
void add_gpt2(Tensors& all, const Sizes& sizes) {
  const std::int64_t width = sizes.of("n_embd"), inner = sizes.of("n_inner", 4 * width);
  all.add("transformer.wte.weight", {sizes.of("vocab_size"), width});
  all.add("transformer.wpe.weight", {sizes.of("n_positions"), width});
  const std::int64_t layers = sizes.layers("n_layer");
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string layer = "transformer.h." + std::to_string(i) + ".";
    const auto pair = [&](const std::string& name, std::vector<std::int64_t> shape, int cut,
                          int bias_cut) {
      const std::int64_t out = shape.back();
      all.add(layer + name + ".weight", std::move(shape), cut);
      all.add(layer + name + ".bias", {out}, bias_cut);
    };
    pair("ln_1", {width}, whole, whole);
    pair("attn.c_attn", {width, 3 * width}, 1, 0);
    pair("attn.c_proj", {width, width}, 0, whole);
    pair("ln_2", {width}, whole, whole);
    pair("mlp.c_fc", {width, inner}, 1, 0);
    pair("mlp.c_proj", {inner, width}, 0, whole);
  }
  all.add("transformer.ln_f.weight", {width});
  all.add("transformer.ln_f.bias", {width});
  if (!sizes.flag("tie_word_embeddings", true))
    all.add("lm_head.weight", {sizes.of("vocab_size"), width});
}

}  // namespace

bool is_part_of_model(const std::string& path) {
  static const std::regex part("-[0-9]{5}-of-([0-9]{5})\\.safetensors");
  std::smatch match;
  const std::string name = fs::path(path).filename().string();
  return std::regex_search(name, match, part) && match[1] != "00001";
}

PlannedModel indexed_model(const std::string& path) {
  std::map<std::string, std::string> part_of;  // by tensor
  std::map<std::string, std::int64_t> parts;   // tensors of each
  from_json(path, [&](const Json& index) {
    for (const Json::Member& entry : index.at("weight_map").members()) {
      const auto part = entry.value.get<std::string>();
      ZP_CHECK(!part.empty() && part.find('/') == std::string::npos, ErrorCode::config,
               path + " names the file " + shown_name(part), "parts are in the folder of the index",
               "name a file without a folder");
      part_of[entry.name] = part;
      ++parts[part];
    }
    return 0;
  });
  ZP_CHECK(!parts.empty(), ErrorCode::config, path + " lists no tensor",
           "there is nothing to plan for", "name the index of a model in parts");
  PlannedModel model{path, {}, false};
  for (const auto& [part, count] : parts) {
    const PlannedModel one = stored_model((fs::path(path).parent_path() / part).string());
    for (const PlannedTensor& tensor : one.tensors) {
      const auto found = part_of.find(tensor.spec.name);
      ZP_CHECK(found != part_of.end() && found->second == part, ErrorCode::config,
               one.source + " has " + shown_name(tensor.spec.name) + ", which " + path +
                   " does not list there",
               "the index belongs to other files", "use the index that was saved with the parts");
      model.tensors.push_back(tensor);
    }
    ZP_CHECK(static_cast<std::int64_t>(one.tensors.size()) == count, ErrorCode::config,
             one.source + " has " + std::to_string(one.tensors.size()) + " of the " +
                 std::to_string(count) + " tensors that " + path + " lists there",
             "the index belongs to other files", "use the index that was saved with the parts");
  }
  return model;
}

PlannedModel configured_model(const std::string& path) {
  return from_json(path, [&](const Json& config) {
    const Sizes sizes(config, path);
    const auto names = config.at("architectures").get<std::vector<std::string>>();
    const std::string name = names.empty() ? "" : names.front();
    Tensors all;
    all.model.source = path;
    if (name == "LlamaForCausalLM" || name == "MistralForCausalLM") {
      add_llama(all, sizes, false, path);
    } else if (name == "Qwen2ForCausalLM") {
      add_llama(all, sizes, true, path);
    } else if (name == "GPT2LMHeadModel") {
      add_gpt2(all, sizes);
    } else {
      fail(ErrorCode::config, path + " is of the architecture " + shown_name(name),
           "its tensors are not known here",
           suggestion(name, {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM",
                             "GPT2LMHeadModel"}) +
               ", or name its safetensors files");
    }
    return all.model;
  });
}

std::string model_file_in(const std::string& folder) {
  for (const char* name : {"model.safetensors.index.json", "model.safetensors", "config.json"}) {
    const fs::path file = fs::path(folder) / name;
    std::error_code unreadable;
    if (fs::exists(file, unreadable)) return file.string();
  }
  fail(ErrorCode::config,
       folder + " has no model.safetensors.index.json, model.safetensors or config.json",
       "a plan needs names and shapes of tensors", "name a file that describes the model");
}

}  // namespace zeroproof::verification
