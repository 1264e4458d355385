#include <array>

#include "verification/faults/catalogue.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::array<Fault, 22> operations = {{
    {"gather-counts-empty-parts", FaultKind::operation, "communication", std::nullopt,
     "in a gather the part after an empty one is placed one byte further", ""},
    {"swiglu-slope-is-sigmoid", FaultKind::operation, "activations", std::nullopt,
     "the gate's gradient treats the sigmoid as a constant", ""},
    {"swiglu-held-at-one-end", FaultKind::operation, "activations", std::nullopt,
     "the linear part is clamped from above but not from below", ""},
    {"causal-mask-off-by-one", FaultKind::operation, "masks", std::nullopt,
     "a position attends to the one after it", ""},
    {"masked-row-shared-out", FaultKind::operation, "masks", std::nullopt,
     "a fully masked row gets equal shares", ""},
    {"sink-gradient-left-out", FaultKind::operation, "softmax", std::nullopt,
     "the sink gets no gradient", ""},
    {"vocabulary-max-of-own-columns", FaultKind::operation, "cross-entropy", std::nullopt,
     "every rank subtracts the largest logit of its own columns", ""},
    {"smoothing-over-all-columns", FaultKind::operation, "cross-entropy", std::nullopt,
     "the smoothed share is divided by all columns, not by the others", ""},
    {"z-loss-gradient-left-out", FaultKind::operation, "cross-entropy", std::nullopt,
     "the z-loss is in the loss but not in its gradient", ""},
    {"rms-eps-outside-root", FaultKind::operation, "norm layers", std::nullopt,
     "eps is added to the root of the mean square", ""},
    {"dropout-counts-from-zero", FaultKind::operation, "random", std::nullopt,
     "a rank draws the words of the first elements, whatever elements it owns", ""},
    {"weight-gradient-overwritten", FaultKind::operation, "accumulation", std::nullopt,
     "the gradient of a weight loses the sum of earlier micro-batches", ""},
    {"percentile-right-edge", FaultKind::operation, "calibration", std::nullopt,
     "a percentile is the upper edge of its bin", ""},
    {"percentile-passes-an-equal", FaultKind::operation, "calibration", std::nullopt,
     "a bin that reaches the share exactly does not count", ""},
    {"histogram-last-edge-outside", FaultKind::operation, "calibration", std::nullopt,
     "a magnitude on the last edge of appended bins is counted past them", ""},
    {"histogram-joined-from-below", FaultKind::operation, "calibration", std::nullopt,
     "a widened bin is joined with the one before, not with the one after", ""},
    {"entropy-first-of-equals", FaultKind::operation, "calibration", std::nullopt,
     "of equally near clips the first is taken", ""},
    {"smooth-alpha-of-weights", FaultKind::operation, "calibration", std::nullopt,
     "alpha is the share of weights, not of inputs", ""},
    {"fake-quantize-one-code-more", FaultKind::operation, "calibration", std::nullopt,
     "integers reach down to one code more than up", ""},
    {"split-rounds-to-even", FaultKind::operation, "master split", std::nullopt,
     "the parameter of a split master is rounded to even, its remainder is not", ""},
    {"remainder-lost", FaultKind::operation, "master split", std::nullopt,
     "a split master is joined without its remainder", ""},
    {"remainder-rounding-kept", FaultKind::operation, "master split", std::nullopt,
     "a split master whose parameter was rounded up is joined too high", ""},
}};

}  // namespace

Span<const Fault> operation_faults() { return operations; }

}  // namespace zeroproof::verification
