#include "verification/tools/judge_run/run_assembled.hpp"

#include <algorithm>
#include <limits>

namespace zeroproof::verification {

AssembledTensor assemble(const RunStep& step, std::size_t p, const std::string& kind,
                         std::size_t replica) {
  AssembledTensor whole;
  whole.elements = elements_of(step.parameter(p).leaf);
  whole.values.assign(whole.elements.size(), std::numeric_limits<float>::quiet_NaN());
  whole.owner.assign(whole.elements.size(), 0);
  whole.complete = !step.owners(p).empty();
  for (const std::size_t r : step.owners(p)) {
    const RunParameter& parameter = step.parameter(p, r);
    if (parameter.replicated && r != replica) continue;  // others are compared with it
    const auto values = step.ranks[r].read(kind, parameter);
    if (!values) {
      whole.complete = false;
      continue;
    }
    whole.dtype = values->dtype;
    const std::vector<std::int64_t> owned = elements_of(parameter.owned);
    for (std::size_t i = 0; i < owned.size(); ++i) {
      const auto at = static_cast<std::size_t>(std::ranges::lower_bound(whole.elements, owned[i]) -
                                               whole.elements.begin());
      whole.values[at] = values->values[i];
      whole.owner[at] = r;
    }
  }
  return whole;
}

}  // namespace zeroproof::verification
