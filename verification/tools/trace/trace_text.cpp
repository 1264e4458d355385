// All values of a step as tables.

#include <algorithm>
#include <map>

#include "common/step/scaled_params.hpp"
#include "verification/cli/program/contract_text.hpp"
#include "verification/report/format.hpp"
#include "verification/report/paint.hpp"
#include "verification/tools/trace/json_sections.hpp"
#include "verification/tools/trace/matrix_way.hpp"
#include "verification/tools/trace/scaled_way.hpp"
#include "verification/tools/trace/sections.hpp"

namespace zeroproof::verification {
namespace {

const char* explanation(Phase phase, const TraceSettings& settings) {
  switch (phase) {
    case Phase::prepare:
      return "R5: every scalar is computed in fp64 and rounded to fp32 once; beta1 and beta2 were "
             "rounded "
             "when the settings were read.";
    case Phase::reduce:
      return settings.stage == 0
                 ? "R11: leaves are added along one binary tree over the micro-batches; "
                   "stage 0 then gives all of G to every rank."
                 : "R11: leaves are added along one binary tree over the micro-batches; "
                   "every rank gets G of its elements.";
    case Phase::unscale:
      return "R6, R14: g1 = G * inv_scale removes the loss scale and computes the mean; found_inf "
             "is an OR over all ranks.";
    case Phase::norm:
      return "R12: sums of squares of 1024 elements, added over ranks as integers: limb i weighs "
             "2^(32 i - "
             "352); one root.";
    case Phase::clip:
      return "R12: clip_coef = fp32(min(1, max_norm / (N + 1e-6))), from fp64; g = g1 * clip_coef.";
    case Phase::update:
      if (traits_of(settings.rule).matrices) {
        return "R6, R28: a matrix is orthogonalised as a whole, from the directions e of all its "
               "elements; the rest is element by element.";
      }
      return "R6: element by element, so an owner needs no data from other ranks [ZeRO:local]; "
             "t becomes applied_steps.";
    case Phase::cast:
      if (has_scales(settings.param_dtype)) {
        return "R24: the largest magnitude of every block, over all ranks, makes its scale (under "
               "delayed "
               "the next "
               "one); the code is y = v * scale, rounded; the model reads x.";
      }
      return "R8: master rounded to the parameter dtype, to nearest, ties to even; the master "
             "keeps the lost bits.";
    case Phase::gather:
      return "R6: the bytes of every shard travel to every rank; nothing is computed.";
  }
  return "";
}

/// Ranks whose buffers hold the same elements with the same bits.
struct Holders {
  std::vector<int> ranks;
  const TracedBuffer* buffer;
};

/// The buffers in a table, of every rank, by rank.
using Section = std::vector<std::vector<const TracedBuffer*>>;

Section before(const StepTrace& trace, std::size_t step) {
  Section section;
  for (const TracedRank& rank : trace.shown()) {
    section.emplace_back();
    for (const TracedBuffer& buffer : rank.steps[step].before) section.back().push_back(&buffer);
  }
  return section;
}

Section written(const StepTrace& trace, std::size_t step, Phase phase) {
  Section section;
  for (const TracedRank& rank : trace.shown()) {
    section.emplace_back();
    for (const TracedBuffer& buffer : rank.steps[step].buffers) {
      if (buffer.phase == phase) section.back().push_back(&buffer);
    }
  }
  return section;
}

std::vector<Holders> holders_of(const Section& section, BufferId id) {
  std::vector<Holders> all;
  for (std::size_t r = 0; r < section.size(); ++r) {
    for (const TracedBuffer* const one : section[r]) {
      const TracedBuffer& buffer = *one;
      if (buffer.id != id) continue;
      const auto same = std::find_if(all.begin(), all.end(), [&](const Holders& other) {
        return other.buffer->ranges == buffer.ranges && other.buffer->bytes == buffer.bytes;
      });
      if (same == all.end()) {
        all.push_back({{static_cast<int>(r)}, &buffer});
      } else {
        same->ranks.push_back(static_cast<int>(r));
      }
    }
  }
  return all;
}

/// Buffers in the order in which rank 0 exposes them.
std::vector<BufferId> buffers_of(const Section& section, bool words) {
  std::vector<BufferId> ids;
  for (const TracedBuffer* const buffer : section.front()) {
    if (holds_words(buffer->id) == words) ids.push_back(buffer->id);
  }
  return ids;
}

/// The clip group of a word, if there are several.
std::string group_name(BufferId id, std::int64_t word, const std::string& clip_group) {
  const bool of_groups =
      id == BufferId::norm_limbs || id == BufferId::grad_norm || id == BufferId::clip_coef;
  if (clip_group.empty() || !of_groups) return {};
  return clip_group_of(id, word) == 0 ? " (others)" : " (" + clip_group + ")";
}

std::string shown_word(BufferId id, std::int64_t word, const std::string& clip_group) {
  std::string text = word_name(id, word);
  if (text.starts_with("limb")) text.insert(4, " ");
  if (id == BufferId::loss_scaler) text.insert(0, "loss_scaler.");
  return text + group_name(id, word, clip_group);
}

std::string scalars_text(const StepTrace& trace, const Section& section) {
  std::vector<std::string> names;
  TraceColumn who{"on", {}};
  TraceColumn values{"value", {}};
  for (const BufferId id : buffers_of(section, true)) {
    for (const Holders& holders : holders_of(section, id)) {
      bool zeros_left_out = false;
      for (std::int64_t word = 0; word < holders.buffer->numel(); ++word) {
        const std::uint64_t bits = holders.buffer->bits(word);
        if (id == BufferId::norm_limbs && bits == 0) {
          zeros_left_out = true;
          continue;
        }
        names.push_back(shown_word(id, word, trace.settings.clip_group));
        who.cells.push_back(ranks_text(holders.ranks));
        values.cells.push_back(shown_value(bits, word_dtype(*holders.buffer, word)));
      }
      if (!zeros_left_out) continue;
      names.emplace_back("other limbs and counts");
      who.cells.push_back(ranks_text(holders.ranks));
      values.cells.emplace_back("0");
    }
  }
  return names.empty() ? "" : "\n" + table({"", names}, {who, values});
}

std::string elements_text(const StepTrace& trace, const Section& section) {
  const std::vector<BufferId> ids = buffers_of(section, false);
  if (ids.empty()) return "";
  const std::vector<std::int64_t> all = elements_of(trace.model.layout());
  const std::vector<std::string> all_names = element_names(trace.model.layout());
  // Columns of the same ranks with the same rows are adjacent: a replicated buffer that differs
  // between ranks is shown for each rank, like shards, but has more rows.
  std::map<std::pair<std::vector<int>, std::vector<std::string>>, std::vector<TraceColumn>> groups;
  for (const BufferId id : ids) {
    for (const Holders& holders : holders_of(section, id)) {
      TraceColumn column{std::string(name(id)), {}};
      std::vector<std::string> names;
      std::int64_t local = 0;
      for (const FlatRange& range : holders.buffer->ranges) {
        for (std::size_t e = 0; e < all.size(); ++e) {
          if (all[e] < range.begin || all[e] >= range.end) continue;
          names.push_back(all_names[e]);
          column.cells.push_back(shown_value(holders.buffer->bits(local + all[e] - range.begin),
                                             holders.buffer->dtype));
        }
        local += range.numel();
      }
      groups[{holders.ranks, names}].push_back(std::move(column));
    }
  }
  std::string out;
  for (const auto& [key, columns] : groups) {
    const auto& [ranks, names] = key;
    const bool empty = names.empty();
    out += "\n  " + ranks_text(ranks) +
           (empty ? (ranks.size() > 1 ? " own nothing\n" : " owns nothing\n") : "\n");
    if (!empty) out += table({"", names}, columns);
  }
  return out;
}

/// The effect of a fault, if there is one.
std::string first_difference_text(const StepTrace& trace) {
  const Json all = differences_json(trace);
  if (all.begin() == all.end())
    return "No buffer differs from the reference's: in these steps the fault does not show.";
  const Json& first = *all.begin();
  std::string place = first.contains("word") ? first.at("word").get<std::string>() : "";
  if (first.contains("parameter")) {
    place = element_names(trace.model.layout())[first.at("parameter").get<std::size_t>()];
  }
  return fmt::format(
      "First difference from the reference: step {}, {}, rank {}, {} {}: {} instead of {}; {} in "
      "all.",
      first.at("step").get<int>(), first.at("phase").get<std::string>(),
      first.at("rank").get<int>(), first.at("buffer").get<std::string>(), place,
      first.at("got").get<std::string>(), first.at("want").get<std::string>(),
      all.end() - all.begin());
}

/// The blocks of every tensor.
std::string blocks_text(const StepTrace& trace) {
  const OptimizerSetup setup = traced_setup(trace.settings, trace.model, trace.shards);
  const auto list = [&](const TensorBlocks& blocks) {
    std::string text;
    for (std::int64_t t = 0; t < blocks.num_tensors(); ++t) {
      const std::int64_t first = blocks.first_block(t), count = blocks.grid(t).num_blocks();
      text += fmt::format("{} {} {}", t == 0 ? "" : ",", setup.layout->tensors()[t].name, first);
      if (count > 1) text += fmt::format(" to {}", first + count - 1);
    }
    return text;
  };
  const StepSettings& settings = setup;
  std::string text =
      fmt::format("R24, recipe {}: blocks", name(setup.scaling.recipe)) + list(blocks_of(settings));
  if (has_own_columns(setup.scaling)) text += "; of columns" + list(column_blocks_of(settings));
  return text + ".";
}

std::string heading(const StepTrace& trace) {
  const TraceSettings& s = trace.settings;
  const std::string run = fmt::format(
      "{} step{} of {}, stage {}, {} rank{}, {} micro-batch{}, {} parameters. Values: {}.", s.steps,
      s.steps == 1 ? "" : "s", name(s.rule), s.stage, s.world_size, s.world_size == 1 ? "" : "s",
      s.micro_batches, s.micro_batches == 1 ? "" : "es", name(s.param_dtype),
      s.fault.empty() ? "the reference's" : "production's, with the fault " + s.fault);
  std::string out = wrapped({run}, trace_columns, "");
  if (!s.fault.empty()) out += wrapped({first_difference_text(trace)}, trace_columns, "");
  std::string tensors = "R13:";
  for (const TensorSlot& slot : trace.model.layout().tensors()) {
    tensors += fmt::format(" {} [{}, {})", slot.name, slot.begin, slot.begin + slot.numel);
  }
  tensors += fmt::format(" of {}; tensors start at multiples of 1024.",
                         trace.model.layout().padded_numel());
  out += wrapped({tensors}, trace_columns, "");
  if (has_scales(s.param_dtype)) out += wrapped({blocks_text(trace)}, trace_columns, "");
  std::string owners = "Owners:";
  for (int rank = 0; rank < s.world_size; ++rank) {
    std::string ranges;
    for (const FlatRange& range : trace.shards.shard(rank)) {
      ranges += fmt::format(" [{}, {})", range.begin, range.end);
    }
    owners += fmt::format("{} rank {}{}", rank == 0 ? "" : ",", rank,
                          ranges.empty() ? " nothing" : ranges);
  }
  owners += s.stage == 0 ? "; in stage 0 every rank keeps everything." : ".";
  return out + wrapped({owners}, trace_columns, "");
}

std::string step_title(const StepTrace& trace, std::size_t step) {
  const TracedStep& first = trace.shown().front().steps[step];
  return fmt::format("Step {} of {}: t = {}, loss scale 2^{}", step + 1, trace.settings.steps,
                     first.t, first.log2_loss_scale);
}

std::string step_text(const StepTrace& trace, std::size_t step, const Paint& paint) {
  const Section found = before(trace, step);
  std::string out =
      "\n" + paint("1", step_title(trace, step)) + "\n\n" + paint("1", "before") + "\n";
  out += "  State that survives a step, before this one.\n";
  out += scalars_text(trace, found) + elements_text(trace, found);
  const bool skipped = trace.shown().front().steps[step].skipped;
  for (const Phase phase : all_phases) {
    if (skipped && skipped_on_overflow(phase)) continue;
    const bool gathers = trace.settings.stage == 1 || trace.settings.stage == 2;
    if (phase == Phase::gather && !gathers) continue;
    const Section section = written(trace, step, phase);
    out += "\n" + paint("1", std::string(name(phase))) + "\n";
    out += wrapped({explanation(phase, trace.settings)}, trace_columns, "  ");
    if (phase == Phase::reduce) out += gradient_text(trace, step);
    out += scalars_text(trace, section) + elements_text(trace, section);
    if (phase == Phase::update) out += matrices_text(trace, step);
    if (phase == Phase::cast) out += scaled_text(trace, step);
  }
  if (skipped) {
    out +=
        "\n" +
        wrapped(
            {"R6: found_inf is set, so this step is skipped: norm, clip, update, cast and gather "
             "are not entered, and nothing but the loss scaler has changed."},
            trace_columns, "");
  }
  return out;
}

}  // namespace

std::string trace_text(const StepTrace& trace, bool colour) {
  const Paint paint{colour};
  std::string out = heading(trace);
  for (std::size_t step = 0; step < static_cast<std::size_t>(trace.settings.steps); ++step) {
    out += step_text(trace, step, paint);
  }
  return out;
}

}  // namespace zeroproof::verification
