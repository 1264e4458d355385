#include "verification/training/resume/resume_case.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>

#include "common/base/error.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cases/id_pattern.hpp"
#include "verification/cases/obstacle.hpp"
#include "verification/cases/recipes.hpp"
#include "verification/cli/program/capabilities.hpp"

namespace zeroproof::verification {
namespace {

using Half = ResumeCaseSpec::Half;

std::string ranks_text(const Half& half) {
  const bool data_only = half.grid.cp == 1 && half.grid.tp == 1;
  const std::string ranks = (data_only ? std::to_string(half.grid.dp) : half.grid.id()) + ":" +
                            std::to_string(half.stage);
  if (half.implementation == Implementation::host) return ranks;
  return ranks + ":" + std::string(name(half.implementation));
}

std::int64_t number(const std::string& text, const std::string& id, const char* what) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  ZP_CHECK(error == std::errc{} && end == text.data() + text.size() && value >= 0,
           ErrorCode::config, "'" + text + "' in '" + id + "' is not a " + what,
           "the id is malformed",
           "write it as in resume/adamw/3:2-to-2:1/fp16/contract-to-contract/after:3");
  return value;
}

/// The texts before and after "-to-".
std::array<std::string, 2> two(const std::string& text, const std::string& id) {
  const std::size_t at = text.find("-to-");
  ZP_CHECK(at != std::string::npos, ErrorCode::config,
           "'" + text + "' in '" + id + "' has no part after the save",
           "a resumed run has two halves", "write it as in 3:2-to-2:1, contract-to-fsdp2");
  return {text.substr(0, at), text.substr(at + 4)};
}

Implementation implementation_of(const std::string& text, const std::string& id) {
  std::vector<std::string> names;
  for (const Implementation known : all_implementations) {
    if (known.foreign) continue;
    if (text == name(known)) return known;
    names.emplace_back(name(known));
  }
  fail(ErrorCode::config, "implementation '" + text + "' in '" + id + "' cannot be resumed",
       "it follows the stage", suggestion(text, names));
}

Half half_of(const std::string& ranks, const std::string& layout, const std::string& id) {
  const std::size_t colon = ranks.find(':');
  ZP_CHECK(colon != std::string::npos, ErrorCode::config,
           "'" + ranks + "' in '" + id + "' has no stage",
           "a half of the run has ranks and a stage", "write ranks:stage, as in 3:2 or 2x1x2:1");
  Half half;
  const std::string grid = ranks.substr(0, colon);
  if (grid.find('x') != std::string::npos) {
    half.grid = parse_grid(grid);
  } else {
    const std::int64_t size = number(grid, id, "number of ranks");
    ZP_CHECK(size >= 1 && size <= 64, ErrorCode::config, grid + " ranks in '" + id + "'",
             "they are threads of one process", "use 1 to 64");
    half.grid.dp = static_cast<int>(size);
  }
  ZP_CHECK(half.grid.world_size() <= 64, ErrorCode::config,
           "a grid of more than 64 ranks in '" + id + "'", "they are threads of one process",
           "use a smaller one");
  const std::size_t end = ranks.find(':', colon + 1);
  const std::int64_t stage = number(ranks.substr(colon + 1, end - colon - 1), id, "stage");
  ZP_CHECK(stage <= 3, ErrorCode::config,
           "stage " + std::to_string(stage) + " does not exist in '" + id + "'",
           "ZeRO has stages 0 to 3", "use one of these");
  half.stage = static_cast<int>(stage);
  half.layout = parse_choice<LayoutKind>("layout", layout);
  if (end != std::string::npos) half.implementation = implementation_of(ranks.substr(end + 1), id);
  return half;
}

DType dtype_of(const std::string& text, const std::string& id) {
  for (const DType dtype : param_dtypes) {
    if (text == name(dtype)) return dtype;
  }
  fail(ErrorCode::config, "dtype '" + text + "' in '" + id + "' is no parameter dtype",
       "nothing could be trained", "use bf16, fp16, fp32, e4m3 or e5m2");
}

ResumeCaseSpec case_of(const std::string& id) {
  const std::vector<std::string> parts = id_parts(id);
  const auto ranks = two(parts[2], id), layouts = two(parts[4], id);
  ResumeCaseSpec spec;
  spec.recipe = parts[1];
  spec.before = half_of(ranks[0], layouts[0], id);
  spec.after = half_of(ranks[1], layouts[1], id);
  spec.dtype = dtype_of(parts[3], id);
  const std::size_t of = parts[5].find("-of-");
  const auto step = number_after(parts[5].substr(0, of), "after:");
  ZP_CHECK(step && *step >= 1, ErrorCode::config,
           "'" + parts[5] + "' in '" + id + "' is not a saved step",
           "a checkpoint is made after step 1 or later", "write after:3");
  spec.last_saved = *step;
  if (of != std::string::npos) {
    spec.steps = number(parts[5].substr(of + 4), id, "number of steps");
    ZP_CHECK(spec.steps > 0, ErrorCode::config, "'" + parts[5] + "' in '" + id + "' has no steps",
             "a run of no steps proves nothing", "write after:3-of-6");
  }
  return spec;
}

struct Ranks {
  Half before, after;
  bool any_cut;  ///< needs a norm that does not depend on shard boundaries
};

constexpr Half ranks(int dp, int stage, LayoutKind layout = LayoutKind::contract) {
  return {{dp, 1, 1}, stage, layout, Implementation::host};
}

constexpr std::array<Ranks, 10> changes = {{
    {ranks(3, 2), ranks(2, 1), false},
    {ranks(1, 0), ranks(4, 3), false},
    {ranks(5, 1), ranks(3, 0), false},
    {ranks(2, 3), ranks(8, 2), false},
    {ranks(3, 1, LayoutKind::megatron), ranks(2, 2, LayoutKind::deepspeed_flat), true},
    {ranks(2, 2, LayoutKind::fsdp2), ranks(3, 3, LayoutKind::deepspeed_param), true},
    {{{2, 1, 2}, 1, LayoutKind::contract}, ranks(3, 2), true},
    {ranks(4, 1, LayoutKind::greedy), {{1, 2, 2}, 1, LayoutKind::contract}, true},
    {{{1, 4, 1}, 2, LayoutKind::contract}, {{2, 1, 1}, 3, LayoutKind::contract}, false},
    {ranks(3, 2), ranks(3, 2), false},
}};

/// To and from the host, and every form of the step on a device. Its schedule table has rows for
/// 1,024 steps, beginning with the first step of a half: one case passes t = 1,024 after the save,
/// one begins far above it, and in the last one the first half makes more steps than there are
/// rows.
std::vector<ResumeCaseSpec> device_cases() {
  const auto on = [](Half half, Implementation implementation) {
    half.implementation = implementation;
    return half;
  };
  constexpr Implementation host = Implementation::host, phases = Implementation::device,
                           fused = Implementation::device_fused,
                           graph = Implementation::device_graph;
  const std::string rates = "+decay:table";
  return {
      {"adamw", on(ranks(3, 2), graph), on(ranks(2, 1), host), DType::fp16, 3},
      {"adamw", on(ranks(2, 1), host), on(ranks(3, 2), graph), DType::fp16, 4},
      {"adamw-groups", on(ranks(1, 0), graph), on(ranks(4, 3), fused), DType::bf16, 3},
      {"adamw-idle", on(ranks(3, 1), fused), on(ranks(2, 2), phases), DType::fp32, 4},
      {"lamb", on(ranks(2, 3), phases), on(ranks(1, 0), graph), DType::bf16, 3},
      {"fp8-delayed", on(ranks(2, 2), graph), on(ranks(3, 1), graph), DType::e5m2, 4},
      {"adamw+exp_avg_dtype:e4m3", on(ranks(3, 2), graph), on(ranks(2, 3), graph), DType::bf16, 3},
      {"adamw+state:1001" + rates, on(ranks(2, 2), graph), on(ranks(3, 1), graph), DType::fp16, 19,
       28},
      {"adamw+state:16777217+decay:cosine", on(ranks(3, 1), graph), on(ranks(2, 2), graph),
       DType::fp16, 4},
      {"adamw+micro_batches:1" + rates, on(ranks(1, 0), graph), on(ranks(2, 1), graph), DType::bf16,
       1028, 1034},
  };
}

/// Of every change of ranks and every recipe at least one.
std::vector<ResumeCaseSpec> usual_cases() {
  std::vector<ResumeCaseSpec> cases;
  const auto add = [&](const std::string& recipe, const Ranks& change, DType dtype) {
    ResumeCaseSpec spec{recipe, change.before, change.after, dtype,
                        3 + static_cast<std::int64_t>(cases.size() % 2)};
    if (change.before.grid.tp * change.after.grid.tp > 1) spec.recipe += "+model:even";
    if (change.any_cut) spec.recipe += "+norm:exact";
    cases.push_back(std::move(spec));
  };
  for (const Ranks& change : changes) {
    const auto plain = [](const Half& half) { return half.grid.cp * half.grid.tp == 1; };
    // Parts of a gradient cannot be rounded to 16 bits (R11).
    add("adamw", change, plain(change.before) && plain(change.after) ? DType::fp16 : DType::bf16);
  }
  std::size_t next = 0;
  for (const Recipe& recipe : recipes()) {
    const DType dtype = recipe.dtypes.empty() ? DType::fp16 : recipe.dtypes.front();
    if (has_scales(dtype) && !makes_scales(Implementation::host)) continue;
    if (recipe.name != "adamw") add(std::string(recipe.name), changes[next++ % 4], dtype);
  }
  add("adamw", changes[0], DType::bf16);
  add("adamw", changes[1], DType::fp32);
  if (device_answers()) std::ranges::copy(device_cases(), std::back_inserter(cases));
  return cases;
}

IdGrammar resume_grammar() {
  using Parts = std::vector<std::string>;
  const auto any = [](const Parts&) { return Parts{}; };
  const auto recipe_names = [](const Parts&) {
    Parts names;
    for (const Recipe& recipe : recipes()) names.emplace_back(recipe.name);
    return names;
  };
  return {{"suite", [](const Parts&) { return Parts{"resume"}; }},
          {"recipe", recipe_names, true},
          {"ranks", any},
          {"dtype", any},
          {"layouts", any},
          {"step", any}};
}

}  // namespace

std::string ResumeCaseSpec::id() const {
  return "resume/" + recipe + "/" + ranks_text(before) + "-to-" + ranks_text(after) + "/" +
         std::string(name(dtype)) + "/" + std::string(name(before.layout)) + "-to-" +
         std::string(name(after.layout)) + "/after:" + std::to_string(last_saved) +
         (steps > 0 ? "-of-" + std::to_string(steps) : "");
}

CaseSpec ResumeCaseSpec::half(const Half& ranks) const {
  CaseSpec spec;
  spec.workload = "byte_gpt_tiny";
  spec.recipe = recipe;
  spec.implementation = ranks.implementation;
  if (!spec.implementation.runs_in(spec.mode)) spec.mode = Mode::whole;
  spec.stage = ranks.stage;
  spec.world = {WorldSpec::Kind::threads, ranks.grid.world_size()};
  spec.dtype = dtype;
  spec.bucket_numel = 4096;
  spec.omp_threads = 1;
  spec.place.layout = ranks.layout;
  spec.place.grid = ranks.grid;
  return spec;
}

std::vector<ResumeCaseSpec> resume_cases(const std::string& pattern) {
  const std::vector<std::string> ids = select_ids(pattern, resume_grammar(), [] {
    std::vector<std::string> usual;
    for (const ResumeCaseSpec& spec : usual_cases()) usual.push_back(spec.id());
    return usual;
  });
  std::vector<ResumeCaseSpec> cases;
  for (const std::string& id : ids) cases.push_back(case_of(id));
  return cases;
}

}  // namespace zeroproof::verification
