#include <set>

#include "verification/cli/program/contract_version.hpp"
#include "verification/faults/fault_plan.hpp"
#include "verification/report/format.hpp"
#include "verification/report/json_types.hpp"
#include "verification/report/paint.hpp"

namespace zeroproof::verification {
namespace {

std::string mark(bool good, const Paint& paint) {
  return good ? paint("32", "yes   ") : paint("31", "NO    ");
}

std::string elements_text(const FaultCase& expected) {
  if (!expected.elements) return "no element";
  const auto text = [](const std::optional<std::int64_t>& index) {
    return index ? std::to_string(*index) : "any";
  };
  return fmt::format("{} {} to {}", expected.elements->parameter.value_or("any parameter"),
                     text(expected.elements->first), text(expected.elements->last));
}

/// Adds the difference between expected and found place, for a fault that was not found exactly.
void add_miss(std::string& out, const FaultFinding& f) {
  if (f.exact) return;
  out += fmt::format(
      "    case      {}\n    expected  step {}, phase {}, rank {}: {}, {}\n    found     {}\n",
      f.expected->case_id, f.expected->step, place_of(*f.fault), f.expected->rank,
      f.expected->buffer, elements_text(*f.expected),
      f.reason.empty() ? "nothing: the case passed" : f.reason);
  if (!f.expected->says.empty()) out += fmt::format("    wanted    {}\n", f.expected->says);
  if (f.divergence && f.divergence->global_index >= 0) {
    out += fmt::format("    elements  {} to {}\n", f.divergence->global_index,
                       f.divergence->last_global_index);
  }
}

}  // namespace

std::string to_text(const FaultReport& report, bool colour) {
  const Paint paint{colour};
  std::string out = fmt::format("{:<32} {:<12} {:<16} {:<8} {:<7} {:<10} {}\n", "fault", "kind",
                                "class", "phase", "caught", "attributed", "exact");
  int attributed = 0;
  int exact = 0;
  int implementations = 0;
  std::set<std::string_view> classes;
  for (const FaultFinding& f : report.faults) {
    out += fmt::format("{:<32} {:<12} {:<16} {:<8} {}  {}     {}\n", f.fault->id,
                       name(f.fault->kind), f.fault->fault_class, place_of(*f.fault),
                       mark(f.caught, paint), mark(f.attributed, paint), mark(f.exact, paint));
    implementations += f.fault->kind == FaultKind::implementation ? 1 : 0;
    add_miss(out, f);
    attributed += f.attributed ? 1 : 0;
    exact += f.exact ? 1 : 0;
    classes.insert(f.fault->fault_class);
  }
  out +=
      "\nthe same cases without a fault                                                    status  "
      "kills\n";
  int mistrusted = 0;
  for (const ControlFinding& c : report.controls) {
    const Status status =
        c.status == Status::pass && c.mistrusted() ? Status::mistrusted : c.status;
    mistrusted += c.mistrusted() ? 1 : 0;
    out += fmt::format("{:<80}  {}  {}/{}\n", c.case_id,
                       paint.status(status, std::string(name(status))), c.killed, c.listed);
    if (c.status != Status::pass) out += "    " + c.reason + "\n";
  }
  const auto total = static_cast<int>(report.faults.size());
  out += fmt::format(
      "\n{} faults of {} classes, {} of them wrong implementations: {} caught, {} attributed, {} "
      "exact; {} survive; {} "
      "false "
      "alarms in {} cases without a fault{}\n",
      total, classes.size(), implementations, total - report.survivors(), attributed, exact,
      report.survivors(), report.false_alarms(), report.controls.size(),
      mistrusted > 0 ? fmt::format("; {} cases are mistrusted", mistrusted) : "");
  return out;
}

std::string to_json(const FaultReport& report) {
  Json json = {{"schema", "zeroproof-faults/2"},
               {"version", ZP_VERSION},
               {"contract", contract_version},
               {"faults", Json::array()},
               {"controls", Json::array()}};
  for (const FaultFinding& f : report.faults) {
    json["faults"].push_back(
        {{"id", f.fault->id},
         {"kind", name(f.fault->kind)},
         {"class", f.fault->fault_class},
         {"phase", f.fault->phase ? Json(name(*f.fault->phase)) : Json(nullptr)},
         {"source", f.fault->source},
         {"case", f.expected->case_id},
         {"caught", f.caught},
         {"attributed", f.attributed},
         {"exact", f.exact},
         {"reason", f.reason},
         {"divergence", f.divergence ? to_json_value(*f.divergence) : Json(nullptr)}});
  }
  for (const ControlFinding& c : report.controls) {
    json["controls"].push_back({{"case", c.case_id},
                                {"status", name(c.status)},
                                {"reason", c.reason},
                                {"listed", c.listed},
                                {"killed", c.killed}});
  }
  return json.dump(1) + "\n";
}

}  // namespace zeroproof::verification
