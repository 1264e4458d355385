#include "verification/faults/controls/control_suite.hpp"

#include <algorithm>

#include "verification/cases/experiment.hpp"
#include "verification/cases/id_pattern.hpp"
#include "verification/faults/controls/control.hpp"
#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

std::string row_of(const Result& result, const Paint& paint) {
  const bool alarm = result.status == Status::fail;
  return fmt::format(
      "{:<34} {:>18} {:>12}  {}\n", result.id.substr(result.id.find('/') + 1),
      grouped(result.legal_differences), grouped(result.differing),
      paint.status(result.status, alarm ? "FALSE ALARM" : std::string(name(result.status))));
}

class ControlSuite final : public Suite {
 public:
  std::string name() const override { return "controls"; }

  std::vector<std::string> ids(const VerifyOptions&, const std::string& pattern) const override {
    if (pattern.empty()) return {};
    using Parts = std::vector<std::string>;
    const IdGrammar grammar = {{"suite", [](const Parts&) { return Parts{"controls"}; }},
                               {"control", [](const Parts&) {
                                  Parts names;
                                  for (const Control& control : all_controls())
                                    names.push_back(control.name);
                                  return names;
                                }}};
    return select_ids(pattern, grammar, [] {
      std::vector<std::string> usual;
      for (const Control& control : all_controls()) usual.push_back(control.id());
      return usual;
    });
  }

  void check(const VerifyOptions& options, const std::vector<std::string>&) const override {
    config_of(options, workload_names().front());
  }

  void run(const VerifyOptions& options, const std::vector<std::string>& ids, RunReport& report,
           const ProgressSink& progress) const override {
    const std::uint64_t seed = config_of(options, workload_names().front()).seed;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      progress(static_cast<double>(i) / static_cast<double>(ids.size()), ids[i]);
      const auto same = [&](const Control& control) { return control.id() == ids[i]; };
      const Control& control = *std::find_if(all_controls().begin(), all_controls().end(), same);
      report.results.push_back(run_control(control, seed, replay_line(options, ids[i])));
    }
  }

  std::string table(const RunReport& report, const TextStyle& style) const override {
    std::int64_t run = 0;
    std::int64_t alarms = 0;
    std::string rows;
    for (const Result& result : report.results) {
      if (result.suite != name()) continue;
      ++run;
      alarms += result.status == Status::fail ? 1 : 0;
      rows += row_of(result, Paint{style.colour});
    }
    if (run == 0) return {};
    return "\ncontrol                             legal differences      flagged\n" + rows +
           fmt::format("controls: {} legal differences compared by the harness, {} false alarms\n",
                       run, alarms);
  }
};

}  // namespace

const Suite& control_suite() {
  static const ControlSuite suite;
  return suite;
}

}  // namespace zeroproof::verification
