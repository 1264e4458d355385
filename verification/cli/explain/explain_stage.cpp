// zeroproof explain stage2: the buffers of each rank, and the data that a step sends.

#include "verification/cases/experiment.hpp"
#include "verification/cli/explain/explain_text.hpp"
#include "verification/faults/fault_plan.hpp"
#include "verification/tools/plan/plan.hpp"

namespace zeroproof::verification {
namespace {

struct StageText {
  const char* whole;
  const char* sharded;
  const char* note;
};

/// Buffers that are whole on every rank, and buffers that only the owner has [ZeRO:memory].
constexpr StageText stages[] = {
    {"parameters, gradients, master weights, moments", "nothing",
     "Every rank updates everything. Owners add the gradients of their elements (R11), and their "
     "sums are "
     "gathered."},
    {"parameters, gradients", "master weights, moments",
     "A rank updates the elements it owns, and the new parameters are gathered [ZeRO:local]."},
    {"parameters", "gradients, master weights, moments",
     "Gradients go to their owner while the model runs backwards; no rank keeps those of others."},
    {"nothing but the layer in use", "parameters, gradients, master weights, moments",
     "A layer's parameters are gathered for its visit, forwards and backwards, and are NaN "
     "afterwards."}};

/// The collectives of a step of two ranks, with their phases and data.
std::string collectives_of(int stage) {
  PlanSettings settings;
  settings.grid = {2, 1, 1};
  settings.stages = {stage};
  const Plan plan = make_plan(load_model("byte_gpt_tiny"), settings);
  std::string out;
  for (const TrafficLine& line : plan.stages.front().largest.traffic.lines) {
    out += labelled(out.empty() ? "sends" : "",
                    {std::string(name(line.phase)) + ":", std::string(line.what) + ",", "by",
                     std::string(name(line.collective))},
                    "");
  }
  return out;
}

}  // namespace

std::optional<int> stage_named(const std::string& text) {
  for (int stage = 0; stage < 4; ++stage) {
    const std::string number = std::to_string(stage);
    if (text == "stage" + number || text == "stage " + number) return stage;
  }
  return std::nullopt;
}

std::string explain_stage(int stage) {
  const StageText& text = stages[stage];
  const std::string number = std::to_string(stage);
  std::string out = heading("stage " + number) + "\n\n";
  out +=
      labelled("whole", words_of(text.whole), "") + labelled("sharded", words_of(text.sharded), "");
  out += labelled("", words_of(text.note), "") + collectives_of(stage);
  out += labelled("bytes", {"zeroproof", "plan", "byte_gpt", "--grid", "8x1x1", "--stage", number},
                  "");
  out += labelled("values", {"zeroproof", "trace", "--stage", number}, "");
  out += labelled("cases", {"zeroproof", "verify", "'byte_gpt_tiny/*/stage" + number + "/*'"}, "");
  std::vector<std::string> faults;
  for (const FaultCase& row : fault_plan()) {
    if (row.case_id.find("/stage" + number + "/") != std::string_view::npos)
      faults.emplace_back(row.fault);
  }
  if (!faults.empty()) out += labelled("faults", faults, ",");
  return out;
}

}  // namespace zeroproof::verification
