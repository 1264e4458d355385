#pragma once

#include <vector>

#include "reference/operations.hpp"

namespace zeroproof::reference {

/// An update of bf16 parameters (R25): widened, `update` in fp32, and rounded once.
template <class Update>
void update_bf16(Span<const bf16> grad, Span<bf16> master, const Update& update) {
  std::vector<float> g(grad.size()), p(master.size());
  widen_bf16({}, grad, g);
  widen_bf16({}, master, p);
  update(g, p);
  cast_to_bf16({}, p, master);
}

}  // namespace zeroproof::reference
