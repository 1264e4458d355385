#pragma once
// Shared helpers of the tests of configurations.

#include <doctest.h>

#include <string>

#include "tests/support/complaint.hpp"
#include "verification/cases/config/config.hpp"

namespace zeroproof_test {

using zeroproof::apply_toml;
using zeroproof::HysteresisRefill;
using zeroproof::LossScalerKind;
using zeroproof::main_config;
using zeroproof::RunConfig;

inline RunConfig applied(const std::string& toml) {
  RunConfig config = main_config();
  apply_toml(config, toml, "some/file.toml");
  return config;
}

inline std::string complaint_about(const std::string& toml) {
  return complaint([&] {
    RunConfig config = main_config();
    apply_toml(config, toml, "some/file.toml");
  });
}

/// The line "key = value" after a comment and its section header, which makes it line 3.
inline std::string in_line_3(const std::string& key, const std::string& value) {
  const std::size_t dot = key.find('.');
  return "# remark\n[" + key.substr(0, dot) + "]\n" + key.substr(dot + 1) + " = " + value + "\n";
}

inline void check_refused(const std::string& toml, int line, const std::string& part) {
  const std::string text = complaint_about(toml);
  CAPTURE(toml);
  CAPTURE(text);
  CHECK(text.find("some/file.toml:" + std::to_string(line) + ":") == 0);
  CHECK(has(text, part));
}

/// The message of validate for a configuration whose other values permit any value of the tested
/// one.
inline std::string judged(const std::string& toml) {
  RunConfig config = main_config();
  config.micro_batches = 16;
  config.model = {4, 136, 4, 544, 64};
  config.scaler = {LossScalerKind::dynamic, 16, 1, 1, 0, 24, 1000, 2, HysteresisRefill::growth};
  apply_toml(config, toml, "some/file.toml");
  return complaint([&] { validate(config); });
}

}  // namespace zeroproof_test
