#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <string_view>

#include "common/base/span.hpp"

namespace zeroproof::verification {

/// Each adds one subcommand; when the user chose it, `chosen` becomes the function that runs it and gives the
/// exit code.
void add_verify(CLI::App& app, std::function<int()>& chosen);
void add_list(CLI::App& app, std::function<int()>& chosen);
void add_record(CLI::App& app, std::function<int()>& chosen);
void add_doctor(CLI::App& app, std::function<int()>& chosen);
void add_faults(CLI::App& app, std::function<int()>& chosen);
void add_explain(CLI::App& app, std::function<int()>& chosen);
void add_replay(CLI::App& app, std::function<int()>& chosen);
void add_plan(CLI::App& app, std::function<int()>& chosen);
void add_trace(CLI::App& app, std::function<int()>& chosen);

/// "adamw, adam, sgd, ...": the names of a choice, for the text of a flag.
inline std::string listed(Span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

/// "zeroproof 0.2.0, numeric contract 2".
std::string version_text();

}  // namespace zeroproof::verification
