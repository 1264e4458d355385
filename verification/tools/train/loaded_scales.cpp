#include "verification/tools/train/loaded_scales.hpp"

#include <algorithm>
#include <cmath>

#include "common/base/error.hpp"
#include "common/base/same_value.hpp"
#include "common/checkpoint/checkpoint_state.hpp"
#include "common/checkpoint/rank_report.hpp"
#include "common/step/scaled_params.hpp"
#include "reference/operations.hpp"
#include "reference/param_scales.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::uint32_t infinite = 0x7F800000U, not_a_number = 0x7FFFFFFFU;

std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }

template <class T>
std::vector<T> words_of(const ExposedBuffer& buffer) {
  const auto* const begin = static_cast<const T*>(buffer.view.data);
  return {begin, begin + buffer.view.numel};
}

/// State of a rank after loading.
struct Loaded {
  std::vector<float> scale;
  std::vector<std::uint32_t> history;
  std::vector<std::uint64_t> tensor_steps;  ///< empty: every tensor has made applied_steps
  std::vector<std::uint32_t> amax;          ///< of the masters of all ranks
};

Loaded look(TrainingRank& rank, Communicator& world) {
  const OptimizerSetup& setup = rank.setup();
  reference::ParamScales made(setup, blocks_of(setup));
  Loaded loaded;
  for (const ExposedBuffer& buffer : rank.optimizer().exposed(Phase::update)) {
    if (buffer.id == BufferId::tensor_steps) loaded.tensor_steps = words_of<std::uint64_t>(buffer);
    if (buffer.id != BufferId::master) continue;
    made.collect(words_of<float>(buffer), setup.layout->pieces(buffer.ranges),
                 [](std::int64_t) { return true; });
  }
  for (const ExposedBuffer& buffer : rank.optimizer().exposed(Phase::cast)) {
    if (buffer.id == BufferId::param_scale) loaded.scale = words_of<float>(buffer);
    if (buffer.id == BufferId::amax_history) loaded.history = words_of<std::uint32_t>(buffer);
  }
  std::vector<std::uint64_t> words(made.amax.begin(), made.amax.end());
  world.all_reduce(words, IntegerReduce::max);
  for (const std::uint64_t word : words) loaded.amax.push_back(static_cast<std::uint32_t>(word));
  return loaded;
}

/// The scale for one amax, by all recipes but delayed; [num_blocks].
std::vector<float> scales_of(const StepSettings& settings, const std::vector<std::uint32_t>& amax) {
  std::vector<float> scale(amax.size()), inverse(amax.size());
  if (settings.scaling.recipe == ScaleRecipe::mxfp8) {
    std::vector<e8m0> exponents(amax.size());
    reference::mxfp8_scales({}, fp8_of(settings.param_dtype), amax, exponents, scale);
  } else {
    reference::current_scales({}, current_of(settings.scaling, settings.param_dtype), amax, scale,
                              inverse);
  }
  return scale;
}

/// The largest scale possible with m in the history: a larger amax gives a smaller scale.
float largest_scale(const StepSettings& settings, std::uint32_t m) {
  DelayedScaling options = delayed_of(settings.scaling, settings.param_dtype);
  options.history = 1;
  std::uint32_t slot = m;
  float scale = 1, inverse = 1;
  reference::delayed_scales({}, options, {&slot, 1}, {&scale, 1}, {&inverse, 1});
  return scale;
}

/// The error of a block under delayed, "" if there is none. amax: of its masters; h: its slots.
std::string wrong_delayed(const StepSettings& settings, float scale, Span<const std::uint32_t> h,
                          std::uint32_t amax) {
  if (!std::isnormal(scale) || scale < 0) return "a scale that no amax makes";
  if (std::ranges::any_of(h, [](std::uint32_t a) { return a > infinite && a != not_a_number; }))
    return "an amax in its history that no value has";
  const bool unused = settings.missing_grad == MissingGrad::skip && h[0] == 0;
  if (h[0] != amax && !unused) return "an amax in its history that is not the one of its masters";
  const std::uint32_t known = settings.scaling.choice == AmaxChoice::max
                                  ? *std::ranges::max_element(h.subspan(h.size() > 1 ? 1 : 0))
                                  : h.back();
  const bool makes_scale = h.size() > 1 && known > 0 && known < infinite;
  if (!makes_scale) return "";
  const float most = largest_scale(settings, known);
  const bool good =
      settings.scaling.choice == AmaxChoice::max ? scale <= most : same_value(scale, most);
  return good ? "" : "a scale that its history does not make";
}

void require_blocks(const StepSettings& settings, const TensorBlocks& blocks, const Loaded& loaded,
                    std::int64_t applied_steps, const std::string& label) {
  const bool delayed = keeps_history(settings.scaling);
  const std::vector<float> made = delayed ? loaded.scale : scales_of(settings, loaded.amax);
  const Span<const std::uint32_t> history = loaded.history;
  const std::size_t slots = delayed ? index(settings.scaling.history) : 0;
  for (std::int64_t t = 0; t < blocks.num_tensors(); ++t) {
    const bool stepped = (loaded.tensor_steps.empty() ? static_cast<std::uint64_t>(applied_steps)
                                                      : loaded.tensor_steps[index(t)]) > 0;
    // Before their first step the dequantised masters are not the ones from which the scales were
    // computed.
    if (!stepped && settings.scaling.initial_master == InitialMaster::dequantised) continue;
    const std::size_t first = index(blocks.first_block(t));
    for (std::size_t b = first; b < first + index(blocks.grid(t).num_blocks()); ++b) {
      const std::string wrong =
          delayed ? wrong_delayed(settings, loaded.scale[b], history.subspan(b * slots, slots),
                                  loaded.amax[b])
                  : (same_value(loaded.scale[b], made[b]) ? ""
                                                          : "a scale that its masters do not make");
      ZP_CHECK(wrong.empty(), ErrorCode::damaged,
               label + ": block " + std::to_string(b - first) + " of parameter " +
                   settings.layout->tensors()[index(t)].name + " has " + wrong,
               "its codes would be read as other values (R24)", "take another checkpoint");
    }
  }
}

}  // namespace

void require_scales(const CheckpointReader& from, const Experiment& experiment) {
  if (!has_scales(experiment.param_dtype())) return;
  const Json& about = from.manifest().about;
  ZP_CHECK(about.contains("state"), ErrorCode::damaged, from.label() + " has no scales",
           "codes of parameters would be decoded with wrong scales (R24)",
           "take another checkpoint");
  const SavedScales saved = saved_scales(about.at("state"));
  const ParamScaling& scaling = experiment.config().scaling;
  const std::size_t blocks = index(experiment.blocks().num_blocks());
  const std::size_t slots = keeps_history(scaling) ? blocks * index(scaling.history) : 0;
  const auto require = [&](const char* key, std::size_t found, std::size_t wanted) {
    ZP_CHECK(found == wanted, ErrorCode::damaged,
             from.label() + " has " + std::to_string(found) + " numbers in " + key +
                 " and its settings make " + std::to_string(wanted),
             "codes of parameters would be decoded with wrong scales (R24)",
             "take another checkpoint");
  };
  require("param_scale", saved.param_scale.size(), blocks);
  require("amax_history", saved.amax_history.size(), slots);
}

void require_scales_of_masters(TrainingRank& rank, const std::string& label, Communicator& world) {
  if (!has_scales(rank.setup().param_dtype)) return;
  const Loaded loaded = look(rank, world);
  together(world, [&] {
    require_blocks(rank.setup(), blocks_of(rank.setup()), loaded, rank.optimizer().applied_steps(),
                   label);
  });
}

}  // namespace zeroproof::verification
