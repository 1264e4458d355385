#pragma once
// Every formula that identify tries, buffer by buffer. Each buffer is computed from the buffers in
// the file, master from the stored moments, so that a difference appears in the buffer where it
// originates.

#include <functional>
#include <string>
#include <vector>

#include "verification/tools/identify/recorded_step.hpp"

namespace zeroproof::verification {

struct Candidate {
  std::string text;  ///< of formula_text.hpp; no two of a grid are equal
  std::function<float(const StepTensor&, std::size_t element)> value;
};

struct BufferGrid {
  std::string buffer;  ///< "exp_avg", in the order of computation in a step, master last
  std::vector<Candidate> candidates;
};
/// muon: of momentum_buffer alone.
std::vector<BufferGrid> grids_of(const RecordedStep& step);

/// Every formula of LAMB that grids_of tries for master, in its order.
std::vector<LambMaster> lamb_masters(const DialectHyper& hyper);

/// A dialect's formulas for the buffers of that step, in the same order. Not for muon.
struct BufferForm {
  std::string body, tail;  ///< texts
};
std::vector<BufferForm> forms_of(const Dialect& dialect, const RecordedStep& step);

/// The values of a buffer after the step, and before it (empty if it did not exist).
const std::vector<float>& after(const StepTensor& tensor, const std::string& buffer);
const std::vector<float>& before(const StepTensor& tensor, const std::string& buffer);

}  // namespace zeroproof::verification
