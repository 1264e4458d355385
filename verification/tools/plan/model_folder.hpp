#pragma once
// Models as Hugging Face stores them: a file in parts with an index, or a configuration.

#include <string>

#include "verification/tools/plan/model.hpp"

namespace zeroproof::verification {

/// True for model-00001-of-00004.safetensors.
bool is_part_of_model(const std::string& path);

/// The parts that model.safetensors.index.json lists, from the folder of the index; only their
/// headers are read. In the order of the parts' names, then of each header.
/// Errors: config, the index is none, names a file outside of its folder, or does not have exactly
/// the tensors of its parts; io, a part cannot be read.
PlannedModel indexed_model(const std::string& path);

/// The tensors of a config.json of LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM or
/// GPT2LMHeadModel, with the dimensions that tensor parallelism splits. Tied embeddings count once.
/// Errors (ErrorCode::config): another architecture; a size that is missing or out of range.
/// Source   transformers 4.57, modeling_llama.py, modeling_qwen2.py, modeling_gpt2.py.
PlannedModel configured_model(const std::string& path);

/// The file of a folder that describes its model: the index, model.safetensors, or config.json.
/// Errors (ErrorCode::config): it has none of them.
std::string model_file_in(const std::string& folder);

}  // namespace zeroproof::verification
