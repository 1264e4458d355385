#pragma once
// The state of an optimizer, read in parts: a rank that resumes from it holds no more than its own
// share.

#include <cstdint>
#include <vector>

#include "common/base/span.hpp"
#include "common/contracts/loss_scaler.hpp"
#include "common/step/phase.hpp"

namespace zeroproof {

class StateSource {
 public:
  virtual ~StateSource() = default;

  virtual std::int64_t applied_steps() const = 0;
  virtual LossScalerState scaler() const = 0;
  /// [num_tensors], under missing_grad = skip; else empty.
  virtual std::vector<std::uint64_t> tensor_steps() const = 0;

  /// [num_blocks] and [num_blocks * history], of parameters with scales (R24); empty: a new run.
  virtual std::vector<float> param_scale() const { return {}; }
  virtual std::vector<std::uint32_t> amax_history() const { return {}; }

  /// True if it has the buffer: master, exp_avg, ...
  virtual bool has(BufferId id) const = 0;

  /// Elements [begin, begin + target.size()) of the calling rank's flat numbering (setup.layout), all of one tensor. One
  /// thread at a time. Errors: io or damaged, if it comes from files.
  virtual void read(BufferId id, std::int64_t begin, Span<float> target) const = 0;
};

}  // namespace zeroproof
