#include "verification/tools/train/checkpoints/state_file.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "common/base/error.hpp"
#include "common/checkpoint/checkpoint_state.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "common/io/checkpoint/checkpoint_writer.hpp"
#include "common/io/safetensors/safetensors_reader.hpp"
#include "common/io/safetensors/safetensors_writer.hpp"
#include "common/step/phase.hpp"
#include "verification/cli/program/free_space.hpp"
#include "verification/model/recorded.hpp"
#include "verification/tools/train/checkpoints/file_state.hpp"
#include "verification/tools/train/checkpoints/saved_formats.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* scaler_words[] = {"log2_loss_scale", "growth_tracker", "hysteresis_left"};
constexpr const char* scaler_keys[] = {"log2_scale", "growth_tracker",
                                       "hysteresis_left"};  // of the manifest

/// Without scales, which belong to their codes.
std::set<std::string> states_of(const CheckpointReader& checkpoint) {
  std::set<std::string> states;
  for (const CheckpointPiece& piece : checkpoint.manifest().pieces) {
    if (!is_scale_name(piece.state)) states.insert(piece.state);
  }
  return states;
}

/// Elements in a file: values, as a step reads them; for a buffer with scales also the stored form.
void write_elements(const CheckpointReader& checkpoint, const std::string& state,
                    const std::optional<StateFormat>& scaled, std::int64_t tensor,
                    std::int64_t first, std::int64_t count, SafetensorsWriter& writer) {
  const std::string& name = checkpoint.manifest().tensors[tensor].name;
  std::vector<float> values(count);
  checkpoint.read(state, tensor, first, values);
  if (scaled) {
    const std::int64_t block = first / scale_block_numel;
    std::vector<float> scales((first + count + scale_block_numel - 1) / scale_block_numel - block);
    checkpoint.read(state + "_scale", tensor, block, scales);
    StoredChunk chunk(*scaled, count);
    chunk.take(values, scales);
    values = chunk.values();
    writer.write(code_name(state, name), chunk.code_bytes());
    writer.write(scale_name(state, name), std::as_bytes(Span<const float>(scales)));
  }
  writer.write(state + "." + name, std::as_bytes(Span<const float>(values)));
}

const Json& counters_of(const CheckpointReader& checkpoint) {
  const Json& about = checkpoint.manifest().about;
  ZP_CHECK(about.contains("state"), ErrorCode::damaged, checkpoint.label() + " has no counters",
           "a step depends on them", "name one that zeroproof train wrote");
  return about.at("state");
}

template <class Number>
Span<const std::byte> bytes_of(const Number& number) {
  return std::as_bytes(Span<const Number>(&number, 1));
}

template <class Number>
Number read_number(const SafetensorsReader& file, const SafeTensor& tensor, SafeDType dtype) {
  ZP_CHECK(tensor.dtype == dtype && tensor.numel() == 1, ErrorCode::config,
           file.label() + " has a " + tensor.name + " that is not one number of its type",
           "it would be misread", "write it as zeroproof checkpoint export does");
  Number number;
  file.read(tensor, 0, std::as_writable_bytes(Span<Number>(&number, 1)));
  return number;
}

/// Update counts per tensor, if the training keeps any (missing_grad = skip).
void read_tensor_steps(const SafetensorsReader& file, Json& counters) {
  const std::size_t kept = counters.at("tensor_steps").get<std::vector<std::uint64_t>>().size();
  const SafeTensor* const there = file.find("tensor_steps");
  const bool fits = kept == 0 ? there == nullptr
                              : there != nullptr && there->dtype == SafeDType::u64 &&
                                    there->numel() == static_cast<std::int64_t>(kept);
  ZP_CHECK(fits, ErrorCode::config,
           file.label() + (kept == 0 ? " has tensor_steps, which the training does not keep"
                           : there == nullptr ? " has no tensor tensor_steps"
                                              : " has tensor_steps of another type or length"),
           "bias corrections of a tensor depend on the steps that it had",
           kept == 0 ? "leave it out" : "give " + std::to_string(kept) + " counts, U64");
  if (kept == 0) return;
  std::vector<std::uint64_t> steps(kept);
  file.read(*there, 0, std::as_writable_bytes(Span<std::uint64_t>(steps)));
  counters["tensor_steps"] = steps;
}

/// Scales of parameters in 8 bits and their histories: as many as the training keeps, which may be
/// none.
template <class Number>
void read_scales(const SafetensorsReader& file, const char* key, SafeDType dtype,
                 std::vector<Number>& target) {
  const SafeTensor* const there = file.find(key);
  const auto kept = static_cast<std::int64_t>(target.size());
  const bool fits = kept == 0 ? there == nullptr
                              : there != nullptr && there->dtype == dtype && there->numel() == kept;
  ZP_CHECK(fits, ErrorCode::config,
           file.label() +
               (kept == 0 ? std::string(" has ") + key + ", which the training does not keep"
                : there == nullptr ? std::string(" has no tensor ") + key
                                   : std::string(" has ") + key + " of another type or length"),
           "codes of parameters would be made with other scales (R24)",
           kept == 0 ? "leave it out"
                     : "give " + std::to_string(kept) + " numbers, " + std::string(name(dtype)));
  if (kept > 0) file.read(*there, 0, std::as_writable_bytes(Span<Number>(target)));
}

void read_scales(const SafetensorsReader& file, Json& counters) {
  SavedScales scales = saved_scales(counters);
  read_scales(file, "param_scale", SafeDType::f32, scales.param_scale);
  read_scales(file, "amax_history", SafeDType::u32, scales.amax_history);
  const Json made = counters_json(0, {}, {}, scales);
  for (const char* key : {"param_scale", "amax_history"}) {
    if (made.contains(key)) counters[key] = made.at(key);
  }
}

/// A buffer that this update rule does not keep belongs to the state of another rule.
void refuse_other_states(const SafetensorsReader& file, const CheckpointReader& like) {
  const std::set<std::string> kept = states_of(like);
  for (const SafeTensor& tensor : file.header().tensors) {
    const std::size_t dot = tensor.name.find('.');
    if (dot == std::string::npos || kept.count(tensor.name.substr(0, dot)) > 0) continue;
    const std::string buffer = tensor.name.substr(0, dot);
    const bool is_any_state =
        buffer == name(BufferId::master) ||
        std::ranges::any_of(all_state_slots, [&](StateSlot slot) { return buffer == name(slot); });
    ZP_CHECK(
        !is_any_state, ErrorCode::config,
        file.label() + " has " + shown_name(tensor.name) + ", which is not kept in " + like.label(),
        "it would be the state of another update rule",
        "name a checkpoint of the same training with --like, or leave it out");
  }
}

void require_finite(Span<const float> values, std::int64_t first, const std::string& file,
                    const std::string& name) {
  const auto bad = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  ZP_CHECK(bad == values.end(), ErrorCode::config,
           file + " has " + shown_name(name) + " with element " +
               std::to_string(first + (bad - values.begin())) + " = " + std::to_string(*bad),
           "every following step would be skipped or not finite",
           "correct the file, or import it with --allow-nonfinite");
}

}  // namespace

void export_state(const CheckpointReader& checkpoint, const std::string& file) {
  const CheckpointManifest& manifest = checkpoint.manifest();
  const Json& counters = counters_of(checkpoint);
  const std::set<std::string> states = states_of(checkpoint);
  const std::map<std::string, StateFormat> scaled = saved_scaled_formats(checkpoint);
  const auto tensor_steps = counters.at("tensor_steps").get<std::vector<std::uint64_t>>();
  std::vector<SafeTensorSpec> specs = {{"step", SafeDType::i64, {}}};
  for (const char* word : scaler_words) specs.push_back({word, SafeDType::i32, {}});
  if (!tensor_steps.empty())
    specs.push_back(
        {"tensor_steps", SafeDType::u64, {static_cast<std::int64_t>(tensor_steps.size())}});
  const SavedScales scales = saved_scales(counters);
  const auto count_of = [](const auto& values) { return static_cast<std::int64_t>(values.size()); };
  if (!scales.param_scale.empty())
    specs.push_back({"param_scale", SafeDType::f32, {count_of(scales.param_scale)}});
  if (!scales.amax_history.empty())
    specs.push_back({"amax_history", SafeDType::u32, {count_of(scales.amax_history)}});
  for (const std::string& state : states) {
    for (const CheckpointTensor& tensor : manifest.tensors) {
      specs.push_back({state + "." + tensor.name, SafeDType::f32, tensor.shape});
      if (!scaled.contains(state)) continue;
      specs.push_back(
          {code_name(state, tensor.name), safe_dtype(dtype_of(scaled.at(state))), tensor.shape});
      specs.push_back(
          {scale_name(state, tensor.name), SafeDType::f32, {numel_of(state + "_scale", tensor)}});
    }
  }
  SafetensorsWriter writer(file, specs,
                           {{"contract_version", manifest.contract},
                            {"run", manifest.run},
                            {"steps_made", std::to_string(manifest.step)},
                            {"source", "zeroproof " ZP_VERSION}},
                           workload::recording_limits());
  const auto step = counters.at("applied_steps").get<std::int64_t>();
  writer.write("step", bytes_of(step));
  for (std::size_t i = 0; i < std::size(scaler_words); ++i) {
    const auto word = counters.at(scaler_keys[i]).get<std::int32_t>();
    writer.write(scaler_words[i], bytes_of(word));
  }
  if (!tensor_steps.empty())
    writer.write("tensor_steps", std::as_bytes(Span<const std::uint64_t>(tensor_steps)));
  if (!scales.param_scale.empty())
    writer.write("param_scale", std::as_bytes(Span<const float>(scales.param_scale)));
  if (!scales.amax_history.empty())
    writer.write("amax_history", std::as_bytes(Span<const std::uint32_t>(scales.amax_history)));
  for (const std::string& state : states) {
    std::optional<StateFormat> format;
    if (scaled.contains(state)) format = scaled.at(state);
    for (std::size_t t = 0; t < manifest.tensors.size(); ++t) {
      const std::int64_t count = numel(manifest.tensors[t]);
      for (std::int64_t first = 0; first < count; first += most_at_once) {
        write_elements(checkpoint, state, format, static_cast<std::int64_t>(t), first,
                       std::min(most_at_once, count - first), writer);
      }
    }
  }
  writer.finish();
}

std::string import_state(const std::string& file, const CheckpointReader& like, std::int64_t step,
                         const std::string& folder, bool allow_nonfinite, Disk& disk) {
  const auto source = SafetensorsReader::open(file, workload::recording_limits());
  CheckpointManifest manifest = like.manifest();
  Json counters = counters_of(like);
  const SafeTensor* const applied = source.find("step");
  ZP_CHECK(applied != nullptr, ErrorCode::config, file + " has no tensor step",
           "bias corrections depend on how many updates were applied", "add it as an I64 scalar");
  counters["applied_steps"] = read_number<std::int64_t>(source, *applied, SafeDType::i64);
  for (std::size_t i = 0; i < std::size(scaler_words); ++i) {
    const SafeTensor* const word = source.find(scaler_words[i]);
    if (word != nullptr)
      counters[scaler_keys[i]] = read_number<std::int32_t>(source, *word, SafeDType::i32);
  }
  read_tensor_steps(source, counters);
  read_scales(source, counters);
  require_counters(counters, file);
  refuse_other_states(source, like);
  manifest.step = step;
  manifest.run = make_nonce() + make_nonce();
  manifest.about["state"] = counters;
  manifest.files.clear();
  manifest.pieces.clear();

  const FileState state_of(source, saved_scaled_formats(like));
  std::vector<CheckpointPiece> pieces;
  for (const std::string& state : states_of(like)) {
    for (std::size_t t = 0; t < manifest.tensors.size(); ++t) {
      const CheckpointTensor& tensor = manifest.tensors[t];
      state_of.require(state, tensor);
      for (const std::string& part : {state, state + "_scale"}) {
        const std::int64_t count = numel_of(part, tensor);
        if (count > 0 && like.has(part))
          pieces.push_back({part, static_cast<std::int64_t>(t), 0, 0, count, count, count, 0});
      }
    }
  }
  // All errors of the file come before the folder is made.
  std::uint64_t elements = 0;
  std::vector<float> values;
  for (const CheckpointPiece& piece : pieces) {
    elements += static_cast<std::uint64_t>(piece.numel);
    const CheckpointTensor& tensor = manifest.tensors[piece.tensor];
    for (std::int64_t first = 0; first < piece.numel; first += most_at_once) {
      values.resize(std::min(most_at_once, piece.numel - first));
      state_of.read(piece.state, tensor, first, values);
      if (!allow_nonfinite) require_finite(values, first, file, piece.state + "." + tensor.name);
    }
  }
  require_free_space(folder, 4 * elements);
  const CheckpointRoot root = CheckpointRoot::lock(folder, disk);
  UnfinishedCheckpoint unfinished = root.begin(step);
  try {
    manifest.files.push_back(
        write_rank_file(disk, unfinished, rank_file_name(0), manifest, pieces,
                        [&](const CheckpointPiece& piece, std::int64_t first, std::int64_t count) {
                          values.resize(count);
                          state_of.read(piece.state, manifest.tensors[piece.tensor], first, values);
                          return Span<const float>(values);
                        }));
    manifest.pieces = std::move(pieces);
    commit_checkpoint(disk, root, unfinished, manifest);
  } catch (...) {
    root.sweep();
    throw;
  }
  return folder + "/" + checkpoint_name(step);
}

}  // namespace zeroproof::verification
