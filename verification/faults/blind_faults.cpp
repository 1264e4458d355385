#include "verification/faults/blind_faults.hpp"

#include <algorithm>
#include <charconv>

#include "common/base/digest.hpp"
#include "common/base/error.hpp"
#include "verification/faults/fault_plan.hpp"

namespace zeroproof::verification {
namespace {

/// Fault-relevant part of a case id: without the mode and the threads, which change no bit.
std::string essence(const std::string& case_id) {
  std::optional<CaseSpec> spec = parse_case_id(case_id);
  if (!spec) return case_id;
  spec->mode = Mode::lockstep;
  spec->omp_threads = 0;
  return spec->id();
}

bool shows(const FaultCase& row, const VerifyOptions& options, const std::string& case_id) {
  if (row.refused || row.config != nullptr || row.gradients != nullptr) return false;
  if (essence(std::string(row.case_id)) != essence(case_id)) return false;
  const std::optional<CaseSpec> spec = parse_case_id(case_id);
  return !spec || row.step <= config_of(options, *spec).steps;
}

}  // namespace

std::vector<const Fault*> blind_faults(const VerifyOptions& options, const std::string& case_id) {
  std::vector<const Fault*> found;
  for (const Fault& fault : fault_catalogue()) {
    if (shows(plan_of(fault.id), options, case_id)) found.push_back(&fault);
  }
  std::ranges::sort(found, {}, [](const Fault* fault) {
    return raw_digest(fault->id.data(), static_cast<std::int64_t>(fault->id.size()));
  });
  return found;
}

const Fault& blind_fault(const VerifyOptions& options, const std::vector<std::string>& case_ids,
                         const std::string& number) {
  ZP_CHECK(!case_ids.empty(), ErrorCode::config, "no case was chosen for --blind " + number,
           "--blind plants a fault into a case", "name a case");
  const std::vector<const Fault*> faults = blind_faults(options, case_ids.front());
  for (const std::string& id : case_ids) {
    ZP_CHECK(blind_faults(options, id) == faults, ErrorCode::config,
             "the chosen cases do not have the same faults",
             "number " + number + " would be ambiguous",
             "choose cases that differ only in mode and threads, " + std::string("such as ") +
                 case_ids.front());
  }
  ZP_CHECK(!faults.empty(), ErrorCode::config, "no fault is known to show in " + case_ids.front(),
           "the fault plan lists none",
           "use a case printed by explain for a fault, such as " +
               std::string(plan_of("double-unscale").case_id));
  std::size_t value = 0;
  const auto [rest, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool good = error == std::errc{} && rest == number.data() + number.size() && value >= 1 &&
                    value <= faults.size();
  ZP_CHECK(good, ErrorCode::config, "there is no blind fault " + number + " in this case",
           "the case has " + std::to_string(faults.size()),
           "use 1 to " + std::to_string(faults.size()));
  return *faults[value - 1];
}

}  // namespace zeroproof::verification
