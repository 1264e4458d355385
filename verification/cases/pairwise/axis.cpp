#include "verification/cases/pairwise/axis.hpp"

#include <algorithm>
#include <map>

#include "common/base/error.hpp"
#include "verification/cases/settings/setting.hpp"

namespace zeroproof::verification {
namespace {

/// The flag of a setting, by the setting's name.
const std::map<std::string, std::string> flags_of_settings = {
    {"micro_batches", "--micro-batches"},
    {"norm", "--norm"},
    {"max_norm", "--max-norm"},
    {"exp_avg_dtype", "--exp-avg-dtype"},
    {"exp_avg_sq_dtype", "--exp-avg-sq-dtype"},
    {"master_dtype", "--master-dtype"}};

Axis axis_of(const Setting& setting) {
  Axis axis{setting.name, setting.keys, {}, {}, [applies = setting.applies](const CoveredRun& run) {
              return applies(run.config);
            }};
  if (const auto flag = flags_of_settings.find(setting.name); flag != flags_of_settings.end()) {
    axis.flags.push_back(flag->second);
  }
  for (const SettingValue& value : setting.values) {
    const std::string word = "+" + setting.name + ":" + value.name;
    axis.values.push_back(
        {value.name,
         [set = value.set, is = value.is, word, always = setting.always_set](CoveredRun& run) {
           if (is(run.config) && !always) return;
           set(run.config);
           run.spec.recipe += word;
         },
         [is = value.is](const CoveredRun& run) { return is(run.config); }});
  }
  return axis;
}

AxisGroup axis_group(const std::string& name, const std::vector<std::string>& names) {
  AxisGroup group{name, {}};
  for (const std::string& axis : names) {
    const auto found = std::ranges::find(axes(), axis, &Axis::name);
    ZP_CHECK(found != axes().end(), ErrorCode::internal, "there is no axis " + axis,
             "the group " + name + " names it", "rename it there too");
    group.axes.push_back(static_cast<std::size_t>(found - axes().begin()));
  }
  return group;
}

}  // namespace

int Axis::value_of(const CoveredRun& run) const {
  if (!applies(run)) return -1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].is(run)) return static_cast<int>(i);
  }
  return -1;
}

const std::vector<Axis>& axes() {
  static const std::vector<Axis> all = [] {
    std::vector<Axis> table = case_axes();
    for (const Setting& setting : settings()) table.push_back(axis_of(setting));
    return table;
  }();
  return all;
}

const std::vector<AxisGroup>& axis_groups() {
  static const std::vector<AxisGroup> groups = {
      axis_group("shards", {"windows", "world", "bucket", "layout", "empty_rank"}),
      axis_group("scales", {"scale_recipe", "columnwise", "initial_master", "power_of_two"}),
      axis_group("overflows", {"on_nonfinite", "overflow", "max_norm", "dtype", "exp_avg_dtype",
                               "exp_avg_sq_dtype", "master_dtype"}),
      axis_group("offload", {"offload", "offload_order", "offload_place", "offload_chunk",
                             "offload_overlap", "offload_grads", "overlap"})};
  return groups;
}

const std::vector<std::pair<std::string, std::string>>& flags_without_values() {
  static const std::vector<std::pair<std::string, std::string>> flags = {
      {"--config", "a file of settings"},
      {"--text", "data"},
      {"--gradients", "data"},
      {"--seed", "a number that selects data"},
      {"--steps", "how long the run is"},
      {"--comm-timeout", "never changes a result"},
      {"--jobs", "which cores are used"},
      {"--hostfile", "where processes run"},
      {"--oversubscribe", "permits more processes"},
      {"--plugin", "selects the library that computes operations"},
      {"--plugin-timeout", "never changes a result"},
      {"--second-seed", "of operations"},
      {"--declined", "of operations"},
      {"--accept", "selects how results of a plug-in are compared"},
      {"--fault", "plants a fault"},
      {"--blind", "plants a fault"},
      {"--cover", "chooses rows of the array"},
      {"--cover-seed", "chooses the array"},
      {"--slice", "chooses rows of the array"},
  };
  return flags;
}

}  // namespace zeroproof::verification
