#include "verification/tools/judge_run/run_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <tuple>

#include "common/base/error.hpp"
#include "verification/cases/config/config.hpp"
#include "verification/cases/config/toml.hpp"
#include "verification/report/format.hpp"

namespace zeroproof::verification {
namespace {

/// The same number after the rounding of a rate to fp32, which every program may do.
bool same_rate(double got, double want) { return std::fabs(got - want) <= 0x1p-24 * want; }

/// Every setting of the file is one that a rate depends on; returns whether it has optimizer.lr.
bool check_settings(const std::string& file) {
  std::ifstream stream(file);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const TomlFile toml(text, file);
  bool has_rate = false;
  for (const auto& [section, node] : toml.root().members()) {
    if (section == "schedule" || section == "param_group") continue;
    std::string setting = section;
    if (node.is_table()) {
      for (const auto& [name, value] : node.members()) {
        if (section == "optimizer" && name == "lr")
          has_rate = true;
        else
          setting = section + "." + name;
      }
    }
    ZP_CHECK(section == "optimizer" && setting == section, ErrorCode::config,
             file + " sets " + setting, "no learning rate depends on it",
             "name a file with optimizer.lr, [schedule] and [[param_group]] alone");
  }
  return has_rate;
}

}  // namespace

RunSchedule::RunSchedule(const std::string& file) : file_(file) {
  RunConfig config = main_config();
  config.schedule = {};
  apply_toml_file(config, file);  // reports what is no TOML, and unknown keys
  const bool has_rate = check_settings(file);
  const bool is_table = config.schedule.decay == DecayShape::table;
  ZP_CHECK(has_rate || is_table, ErrorCode::config, file + " has no optimizer.lr",
           "the rates of a schedule are made from it", "add lr to [optimizer], or use a table");
  ZP_CHECK(!has_rate || !is_table, ErrorCode::config, file + " has optimizer.lr and schedule.rates",
           "a table replaces the rate", "leave one of the two out");
  hyper_.lr = config.optimizer.lr;
  ZP_CHECK(std::isfinite(hyper_.lr) && hyper_.lr >= 0, ErrorCode::config,
           file + ": optimizer.lr is " + fmt::format("{}", hyper_.lr),
           "rule R5 requires a rate that is finite and 0 or more", "use such a number");
  rules_ = config.param_groups;
  schedule_ = config.schedule;
  validate(rules_, schedule_);
}

double RunSchedule::rate(const ParamGroups& groups, int group, std::int64_t t,
                         std::int64_t micro_batches) const {
  return hyper_of(groups, hyper_, group, t, micro_batches).lr;
}

std::string RunSchedule::hint(const ParamGroups& groups, int group, const RunStep& step,
                              std::int64_t t, std::int64_t micro_batches, double got) const {
  const auto is = [&](const ParamGroups& other, int of, std::int64_t at) {
    return at >= 1 && same_rate(got, rate(other, of, at, micro_batches));
  };
  if (is(groups, group, t - 1)) return "as if the schedule were one step behind";
  if (is(groups, group, t + 1)) return "as if the schedule were one step ahead";
  if (step.number() != t && is(groups, group, step.number()))
    return fmt::format("as if the schedule counted skipped steps too, {} in all", step.number());
  for (int other = 0; other < groups.count(); ++other) {
    if (other != group && is(groups, other, t))
      return other == 0 ? "as if it were the rate of the default group"
                        : "as if it were the rate of group " + groups.rules[other - 1].name;
  }
  const std::int64_t world = step.world();
  if (world > 1 && is(groups, group, t * world))
    return fmt::format("as if the schedule were advanced once per rank, {} times a step", world);
  const std::int64_t per_rank = step.ranks.front().micro_batches;
  if (per_rank > 1 && is(groups, group, t * per_rank))
    return fmt::format("as if the schedule were advanced once per micro-batch, {} times a step",
                       per_rank);
  ParamGroups wrong = groups;
  wrong.schedule.warmup = 0;
  if (schedule_.warmup != 0 && is(wrong, group, t)) return "as if there were no warm-up";
  wrong.schedule = {};
  if (is(wrong, group, t)) return "as if the rate were constant";
  if (is(groups, group, 1)) return "as if the schedule had begun again";
  return "";
}

RunFindings RunSchedule::judge(const RunStep& step) const {
  RunFindings found(step, RunPhase::rate);
  if (!step.ranks.front().applied) {
    found.note("a skipped step");
    return found;
  }
  std::vector<ParamSpec> params;
  std::int64_t t = 0;
  for (std::size_t p = 0; p < step.num_parameters(); ++p) {
    params.push_back({step.parameter(p).name, step.parameter(p).shape});
    for (const std::size_t r : step.owners(p)) t = std::max(t, step.parameter(p, r).t);
  }
  if (t < 1) {
    found.missing("the number of updates");
    return found;
  }
  ZP_CHECK(schedule_.decay != DecayShape::table ||
               t <= static_cast<std::int64_t>(schedule_.rates.size()),
           ErrorCode::config,
           fmt::format("schedule.rates of {} has {} rates, and the recording has update {}", file_,
                       schedule_.rates.size(), t),
           "later steps would use the last rate", "give a rate for every step");
  const ParamGroups groups = make_param_groups(rules_, schedule_, FlatLayout(params));
  const std::int64_t micro_batches = step.world() * step.ranks.front().micro_batches;
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    const RankFile& rank = step.ranks[r];
    std::set<std::pair<std::size_t, int>> seen;
    for (std::size_t p = 0; p < step.num_parameters(); ++p) {
      const std::size_t recorded = rank.parameters[p].group;
      const int group = groups.of(static_cast<std::int64_t>(p));
      if (!seen.insert({recorded, group}).second) continue;
      if (rank.groups[recorded].is_other) {
        found.missing(fmt::format("the rate of group {}", recorded));
        continue;
      }
      const double got = rank.groups[recorded].hyper.lr;
      const double want = rate(groups, group, t, micro_batches);
      const bool first = !found.has_first();
      found.add_scalar(
          r, fmt::format("lr of group {}", recorded),
          fmt::format("is not the rate of update {} for {}", t, rank.parameters[p].name),
          same_rate(got, want) ? 0 : HUGE_VAL, fmt::format("{:.9g}", got),
          fmt::format("{:.9g}", want));
      if (first && found.has_first()) found.hint(hint(groups, group, step, t, micro_batches, got));
    }
  }
  return found;
}

}  // namespace zeroproof::verification
