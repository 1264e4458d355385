#include "common/checkpoint/checkpoint_state.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "common/base/error.hpp"
#include "common/io/safetensors/safetensors_types.hpp"
#include "common/step/scaled_params.hpp"
#include "common/step/state_buffers.hpp"

namespace zeroproof {
namespace {

std::string shown_shape(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t length : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(length);
  return text + "]";
}

std::string words_text(Span<const std::uint32_t> words) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(words.size() * 8);
  for (const std::uint32_t word : words) {
    for (int shift = 28; shift >= 0; shift -= 4) text += digits[word >> shift & 0xFU];
  }
  return text;
}

/// What words_text() wrote; a manifest's are checked when it is read.
std::vector<std::uint32_t> words_of(const Json& state, const char* key) {
  if (!state.contains(key)) return {};
  const auto text = state.at(key).get<std::string>();
  std::vector<std::uint32_t> words(text.size() / 8);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const char* const begin = text.data() + 8 * i;
    std::from_chars(begin, begin + 8, words[i], 16);
  }
  return words;
}

}  // namespace

SavedScales saved_scales(const Json& state) {
  SavedScales scales;
  for (const std::uint32_t word : words_of(state, "param_scale"))
    scales.param_scale.push_back(std::bit_cast<float>(word));
  scales.amax_history = words_of(state, "amax_history");
  return scales;
}

CheckpointState::CheckpointState(const CheckpointReader& reader, const OptimizerSetup& setup,
                                 const FlatLayout& whole)
    : reader_(reader), setup_(setup), whole_(whole) {
  require_same_model(whole);
  require_same_state();
  const Json& about = reader.manifest().about;
  ZP_CHECK(about.contains("state"), ErrorCode::damaged, reader.label() + " has no counters",
           "bias corrections and the loss scale depend on it",
           "take a checkpoint of a training run");
  const Json& state = about.at("state");
  applied_steps_ = state.at("applied_steps").get<std::int64_t>();
  scaler_.log2_scale = state.at("log2_scale").get<std::int32_t>();
  scaler_.growth_tracker = state.at("growth_tracker").get<std::int32_t>();
  scaler_.hysteresis_left = state.at("hysteresis_left").get<std::int32_t>();
  tensor_steps_ = state.at("tensor_steps").get<std::vector<std::uint64_t>>();
  scales_ = saved_scales(state);
  const bool counts_tensors = setup.missing_grad == MissingGrad::skip;
  ZP_CHECK(tensor_steps_.size() == (counts_tensors ? whole.tensors().size() : 0), ErrorCode::config,
           reader.label() + (counts_tensors ? " counts no steps for every tensor"
                                            : " counts steps for every tensor"),
           "under missing_grad = skip each tensor has its own t, under zero all have one",
           "continue with the setting of the run that wrote it");
  require_same_scales(whole);
}

void CheckpointState::require_same_scales(const FlatLayout& whole) const {
  const bool wanted = has_scales(setup_.param_dtype);
  StepSettings undistributed = setup_;
  undistributed.layout = &whole;
  const auto blocks = static_cast<std::size_t>(wanted ? blocks_of(undistributed).num_blocks() : 0);
  const std::size_t slots = wanted && keeps_history(setup_.scaling)
                                ? blocks * static_cast<std::size_t>(setup_.scaling.history)
                                : 0;
  ZP_CHECK(scales_.param_scale.size() == blocks && scales_.amax_history.size() == slots,
           ErrorCode::config,
           reader_.label() + " has " + std::to_string(scales_.param_scale.size()) + " scales and " +
               std::to_string(scales_.amax_history.size()) + " amaxes of parameters",
           "those of this training have " + std::to_string(blocks) + " and " +
               std::to_string(slots) + ", rule R24",
           "continue with the parameter dtype and the scaling of the run that wrote it");
}

void CheckpointState::require_same_model(const FlatLayout& whole) const {
  const std::vector<CheckpointTensor>& saved = reader_.manifest().tensors;
  const auto& mine = whole.tensors();
  const auto refuse = [&](const std::string& what) {
    fail(ErrorCode::config, reader_.label() + " belongs to another model: " + what,
         "its elements would be loaded into other tensors",
         "use the configuration of the run that wrote it");
  };
  for (std::size_t i = 0; i < std::min(saved.size(), mine.size()); ++i) {
    if (saved[i].name != mine[i].name)
      refuse("its tensor " + std::to_string(i) + " is " + shown_name(saved[i].name) +
             ", and here it is " + shown_name(mine[i].name));
    if (saved[i].shape != mine[i].shape)
      refuse(shown_name(saved[i].name) + " has shape " + shown_shape(saved[i].shape) +
             ", and here " + shown_shape(mine[i].shape));
  }
  if (saved.size() != mine.size())
    refuse("it has " + std::to_string(saved.size()) + " tensors, and here there are " +
           std::to_string(mine.size()));
}

bool CheckpointState::has(BufferId id) const { return reader_.has(std::string(name(id))); }

void CheckpointState::require_same_state() const {
  bool any = false;
  for (const TensorSlot& slot : whole_.tensors()) any = any || slot.numel > 0;
  if (!any) return;
  const auto require = [&](BufferId id, bool wanted) {
    const std::string state(name(id));
    ZP_CHECK(wanted == has(id), ErrorCode::config,
             reader_.label() + (wanted ? " has no " : " has ") + state +
                 (wanted ? "" : ", which this rule does not keep"),
             "the update would differ from the original run",
             "continue with the update rule of the run that wrote it");
  };
  require(BufferId::master, true);
  for (const StateSlot slot : all_state_slots) {
    const bool wanted = keeps(setup_.hyper, slot);
    require(buffer_of(slot), wanted);
    const bool scaled = wanted && has_scales(setup_.state_formats.of(slot));
    ZP_CHECK(scaled == has(scales_of(slot)), ErrorCode::config,
             reader_.label() + (scaled ? " has no scales of " : " has scales of ") +
                 std::string(name(slot)) + (scaled ? "" : ", which has none in this run"),
             "codes cannot be decoded without them",
             "continue with the formats of the run that wrote it");
  }
}

void CheckpointState::read_scales(BufferId id, std::int64_t begin, Span<float> target) const {
  const std::int64_t end = begin + static_cast<std::int64_t>(target.size());
  for (std::size_t t = 0; t < whole_.tensors().size(); ++t) {
    const TensorSlot& slot = whole_.tensors()[t];
    const std::int64_t first = slot.begin / state_block_numel;
    const std::int64_t last = first + (slot.numel + state_block_numel - 1) / state_block_numel;
    const std::int64_t from = std::max(begin, first), to = std::min(end, last);
    if (from >= to) continue;
    reader_.read(std::string(name(id)), static_cast<std::int64_t>(t), from - first,
                 target.subspan(from - begin, to - from));
  }
}

void CheckpointState::read(BufferId id, std::int64_t begin, Span<float> target) const {
  if (is_state_scale(id)) return read_scales(id, begin, target);
  const auto pieces =
      setup_.layout->pieces({{begin, begin + static_cast<std::int64_t>(target.size())}});
  for (const Piece& piece : pieces) {
    const auto tensor = static_cast<std::size_t>(piece.tensor);
    const TensorSlot& slot = whole_.tensors()[tensor];
    TensorPlacement place{true, slot.begin, slot.numel, slot.numel};
    if (!setup_.placement.empty()) place = setup_.placement[tensor];
    const std::int64_t first = piece.global_begin - setup_.layout->tensors()[tensor].begin;
    for (std::int64_t done = 0; done < piece.numel;) {
      const std::int64_t in_row = (first + done) % place.row_numel;
      const std::int64_t count = std::min(place.row_numel - in_row, piece.numel - done);
      reader_.read(std::string(name(id)), piece.tensor, place.global(first + done) - slot.begin,
                   target.subspan(piece.global_begin - begin + done, count));
      done += count;
    }
  }
}

Json counters_json(std::int64_t applied_steps, const LossScalerState& scaler,
                   const std::vector<std::uint64_t>& tensor_steps, const SavedScales& scales) {
  Json json = Json::object();
  json["applied_steps"] = applied_steps;
  json["log2_scale"] = scaler.log2_scale;
  json["growth_tracker"] = scaler.growth_tracker;
  json["hysteresis_left"] = scaler.hysteresis_left;
  json["tensor_steps"] = Json(tensor_steps);
  if (!scales.param_scale.empty()) {
    std::vector<std::uint32_t> words;
    for (const float scale : scales.param_scale)
      words.push_back(std::isnan(scale) ? Format<float>::magnitude
                                        : std::bit_cast<std::uint32_t>(scale));
    json["param_scale"] = words_text(words);
  }
  if (!scales.amax_history.empty()) json["amax_history"] = words_text(scales.amax_history);
  return json;
}

Json counters_json(const DistributedOptimizer& optimizer, const StepSettings& settings,
                   const std::vector<ExposedBuffer>& storage) {
  std::vector<std::uint64_t> tensor_steps;
  SavedScales scales;
  for (const ExposedBuffer& buffer : storage) {
    if (buffer.id == BufferId::tensor_steps && settings.missing_grad == MissingGrad::skip) {
      const auto* counts = static_cast<const std::uint64_t*>(buffer.view.data);
      tensor_steps.assign(counts, counts + buffer.view.numel);
    }
    if (buffer.id == BufferId::param_scale) {
      const auto* values = static_cast<const float*>(buffer.view.data);
      scales.param_scale.assign(values, values + buffer.view.numel);
    }
    if (buffer.id == BufferId::amax_history) {
      const auto* words = static_cast<const std::uint32_t*>(buffer.view.data);
      scales.amax_history.assign(words, words + buffer.view.numel);
    }
  }
  return counters_json(optimizer.applied_steps(), optimizer.loss_scaler(), tensor_steps, scales);
}

}  // namespace zeroproof
