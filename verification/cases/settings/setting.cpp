#include "verification/cases/settings/setting.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "verification/cases/config/nearest.hpp"

namespace zeroproof::verification {
namespace {

/// Position of a word in the table.
struct Place {
  std::size_t setting, value;
  auto operator<=>(const Place&) const = default;
};

template <class Named>
std::vector<std::string> names_in(const std::vector<Named>& all) {
  std::vector<std::string> names;
  for (const Named& one : all) names.push_back(one.name);
  return names;
}

template <class Named>
std::size_t index_in(const std::vector<Named>& all, const std::string& name,
                     const std::string& what) {
  const std::vector<std::string> names = names_in(all);
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    fail(ErrorCode::config, what + " '" + name + "' does not exist", "it follows a + in a recipe",
         suggestion(name, names));
  }
  return static_cast<std::size_t>(found - names.begin());
}

Place place_of(const std::string& word) {
  const std::size_t colon = word.find(':');
  const std::size_t setting = index_in(settings(), word.substr(0, colon), "setting");
  ZP_CHECK(colon != std::string::npos, ErrorCode::config, "setting '" + word + "' has no value",
           "a setting needs a value", "write " + word + ":VALUE");
  return {setting, index_in(settings()[setting].values, word.substr(colon + 1),
                            "value of the setting " + word.substr(0, colon))};
}

}  // namespace

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = [] {
    std::vector<Setting> table;
    for (const auto part : {model_settings, leaf_settings, optimizer_settings, muon_settings,
                            state_settings, scaler_settings, scaling_settings, rate_settings}) {
      for (Setting& setting : part()) table.push_back(std::move(setting));
    }
    return table;
  }();
  return all;
}

void set_values(RunConfig& config, const std::vector<std::string>& words) {
  std::vector<Place> places;
  for (const std::string& word : words) places.push_back(place_of(word));
  std::ranges::sort(places);
  for (std::size_t i = 1; i < places.size(); ++i) {
    ZP_CHECK(places[i].setting != places[i - 1].setting, ErrorCode::config,
             "setting '" + settings()[places[i].setting].name + "' has two values",
             "only one of them could be used", "leave one out");
  }
  for (const Place& place : places) settings()[place.setting].values[place.value].set(config);
}

const std::vector<std::pair<std::string, std::string>>& keys_without_values() {
  static const std::vector<std::pair<std::string, std::string>> keys = {
      {"run.seed", "a number that selects data, not a computation"},
      {"run.steps", "how long the run is"},
      {"run.text", "data"},
      {"run.comm_timeout_s", "never changes results"},
      {"offload.folder", "the folder of a file, never its content"},
      {"optimizer.lr",
       "a number that every rule multiplies by; schedule and groups change it from step to step"},
  };
  return keys;
}

}  // namespace zeroproof::verification
