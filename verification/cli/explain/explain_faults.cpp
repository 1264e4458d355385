// zeroproof explain double-unscale: a planted fault, and the case that must find it.

#include "verification/cli/explain/explain_text.hpp"
#include "verification/cli/program/contract_text.hpp"
#include "verification/faults/fault_plan.hpp"

namespace zeroproof::verification {

const Fault* find_fault(const std::string& id) {
  for (const Fault& fault : fault_catalogue()) {
    if (fault.id == id) return &fault;
  }
  return nullptr;
}

std::string explain_fault(const Fault& fault) {
  const FaultCase& row = plan_of(fault.id);
  std::string out = heading(std::string(fault.id)) + "\n\n";
  out += wrapped({std::string(fault.summary)}, explain_columns, "  ") + "\n";
  out += labelled("class", {std::string(fault.fault_class)}, "");
  out += labelled("place", {std::string(place_of(fault))}, "");
  if (!fault.source.empty()) out += labelled("met in", {std::string(fault.source)}, "");
  out +=
      labelled("must be", {row.refused ? "refused" : "found", "by", std::string(row.case_id)}, "");
  if (!row.refused) {
    out += labelled("",
                    {"in", "step", std::to_string(row.step) + ",", "rank",
                     std::to_string(row.rank) + ",", "buffer", std::string(row.buffer)},
                    "");
  }
  return out + labelled("try", {"zeroproof-faults", "faults", std::string(fault.id)}, "");
}

}  // namespace zeroproof::verification
