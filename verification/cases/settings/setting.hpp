#pragma once
// Settings of a training run as a list with values: the additions to a recipe in a case id,
// "adamw+amsgrad:on", and the axes of the pairwise selection.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "verification/cases/config/config.hpp"

namespace zeroproof::verification {

/// One value of a setting. For numbers it is a class: "weight_decay:on" is any nonzero value.
struct SettingValue {
  std::string name;
  std::function<void(RunConfig&)> set;  ///< sets a value of this class
  /// whether the configuration has a value of this class
  std::function<bool(const RunConfig&)> is;
};

struct Setting {
  std::string name;
  std::vector<std::string> keys;  ///< keys in the configuration file, "section.key"
  std::vector<SettingValue> values;
  /// False where the setting has no effect: a scale without a scaler. RunConfig::dtypes holds the
  /// one dtype of the run.
  std::function<bool(const RunConfig&)> applies = [](const RunConfig&) { return true; };
  /// Numbers of one class are not equivalent: set the value even if the configuration has one of
  /// its class.
  bool always_set = false;
};

/// Every setting that is no part of a case id by itself, in an order in which they can be set one
/// after another: a later one may depend on earlier ones, and changes none of them.
const std::vector<Setting>& settings();

/// Applies the words "setting:value" to `config`, in the order of settings(). Errors
/// (ErrorCode::config): an unknown word, or a setting twice.
void set_values(RunConfig& config, const std::vector<std::string>& words);

/// Keys of the configuration file that are not settings, each with the reason why none of its
/// values can hide a fault.
const std::vector<std::pair<std::string, std::string>>& keys_without_values();

// The parts of the table.
std::vector<Setting> model_settings();
std::vector<Setting> leaf_settings();
std::vector<Setting> optimizer_settings();
std::vector<Setting> muon_settings();
std::vector<Setting> state_settings();
std::vector<Setting> scaler_settings();
std::vector<Setting> scaling_settings();
std::vector<Setting> rate_settings();

/// Query, key and value matrices in parts, one for every head.
MatrixSplitRule heads_split(const RunConfig& config);

/// The setting, effective only where `applies` holds.
inline Setting where(bool (*applies)(const RunConfig&), Setting setting) {
  setting.applies = applies;
  return setting;
}

/// One value for every name of an enumeration; `member` gives the configuration's.
template <class Member>
Setting every_choice(const std::string& name, const std::string& key, Member member) {
  using Choice = std::remove_cvref_t<decltype(member(std::declval<RunConfig&>()))>;
  Setting setting{name, {key}, {}};
  const Span<const std::string_view> names = names_of(Choice{});
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto choice = static_cast<Choice>(i);
    setting.values.push_back({std::string(names[i]), [=](RunConfig& c) { member(c) = choice; },
                              [=](const RunConfig& c) { return member(c) == choice; }});
  }
  return setting;
}

/// Exactly these values of a member.
template <class Member, class Value>
Setting these_values(const std::string& name, const std::string& key, Member member,
                     const std::vector<std::pair<std::string, Value>>& values) {
  Setting setting{name, {key}, {}};
  for (const auto& choice : values) {
    const Value value = choice.second;  // clang 14 captures no structured binding
    setting.values.push_back({choice.first, [=](RunConfig& c) { member(c) = value; },
                              [=](const RunConfig& c) { return member(c) == value; }});
  }
  return setting;
}

template <class Member>
Setting off_and_on(const std::string& name, const std::string& key, Member member) {
  return these_values<Member, bool>(name, key, member, {{"off", false}, {"on", true}});
}

/// 0, and any other number, represented by `number`.
template <class Member, class Number>
Setting zero_or(const std::string& name, const std::string& key, Member member, Number number) {
  return {name,
          {key},
          {{"0", [=](RunConfig& c) { member(c) = 0; },
            [=](const RunConfig& c) { return member(c) == 0; }},
           {"on", [=](RunConfig& c) { member(c) = number; },
            [=](const RunConfig& c) { return member(c) != 0; }}}};
}

}  // namespace zeroproof::verification
