// Faults of operations outside the step.

#include "verification/faults/fault_plan.hpp"

namespace zeroproof::verification {
namespace {

/// A call has no step and no rank; its element is named in the reason.
constexpr FaultCase at(std::string_view fault, const char* id, std::string_view buffer,
                       std::string_view says) {
  return {.fault = fault, .case_id = id, .buffer = buffer, .says = says};
}

// Places by derivation. A sweep goes through the variants of an operation (verification/ops), and
// through the sizes 0, 1, 2, ... of each. A fault in every element shows in element 0 of the first
// call that has one: the gate of a row, a root, a weight. A mask that is off by one needs a second
// column: element 0 of a 2 by 2 matrix, whose first row then has two shares. d_sink has a term from
// five elements on, one row of the first variant. Smoothing begins with the second variant, where
// the first loss is wrong. The largest logit of a row is another rank's in rows 1, 4, 7, ... Where
// a draw decides (linear parts below -limit, fully masked rows, targets, random words) no element
// is named. The random words of the first dropout variant begin at 0, those of the second do not. A
// calibration has one result, element 0. The width of appended bins is exactly the largest
// magnitude divided by 2,048: that magnitude is on the last edge, and bin 2047 lacks it. Every
// share except 100, the second variant, is exceeded at some bin. Alpha 1, the first variant, makes
// a factor of inputs alone, and of weights alone if it is applied to the weights. Bins with gaps
// have several clips without loss.
//
// The parts of a gather come from ranks; in the first round that of rank 1 is empty, and the next
// one is that of rank 2. Every rank receives it.
constexpr FaultCase plan[] = {
    {.fault = "gather-counts-empty-parts",
     .case_id = "comm/all_gather/threads:3/empty/scattered",
     .step = 1,
     .buffer = "recv[2]"},
    at("swiglu-slope-is-sigmoid", "op/swiglu_backward/host/x86-64/fill:training", "dx",
       "dx[0] differs"),
    at("swiglu-held-at-one-end", "op/swiglu/host/x86-64/fill:wide", "y", "differs"),
    at("causal-mask-off-by-one", "op/causal_softmax/host/x86-64/fill:training", "y",
       "y[0] differs"),
    at("masked-row-shared-out", "op/masked_softmax/host/x86-64/fill:training", "y", "differs"),
    at("sink-gradient-left-out", "op/sink_softmax_backward/host/x86-64/fill:training", "d_sink",
       "d_sink[0] differs"),
    at("vocabulary-max-of-own-columns", "op/cross_entropy_sum/host/x86-64/fill:training", "exp_sum",
       "exp_sum[1] differs"),
    at("smoothing-over-all-columns", "op/cross_entropy_loss/host/x86-64/fill:training", "loss",
       "loss[0] differs"),
    at("z-loss-gradient-left-out", "op/cross_entropy_backward/host/x86-64/fill:training",
       "d_logits", "differs"),
    at("rms-eps-outside-root", "op/rms_norm/host/x86-64/fill:training", "y", "y[0] differs"),
    at("dropout-counts-from-zero", "op/bias_dropout/host/x86-64/fill:training", "y", "differs"),
    at("weight-gradient-overwritten", "op/weight_grad/host/x86-64/fill:training", "weight_grad",
       "weight_grad[0] differs"),
    at("percentile-right-edge", "op/percentile_amax/host/x86-64/fill:sweep", "amax",
       "amax[0] differs"),
    at("percentile-passes-an-equal", "op/percentile_amax/host/x86-64/fill:sweep", "amax",
       "amax[0] differs"),
    at("histogram-last-edge-outside", "op/histogram_count/host/x86-64/fill:training", "count",
       "count[2047] differs"),
    at("histogram-joined-from-below", "op/histogram_widen/host/x86-64/fill:sweep", "count",
       "differs"),
    at("entropy-first-of-equals", "op/entropy_amax/host/x86-64/fill:sweep", "amax",
       "amax[0] differs"),
    at("smooth-alpha-of-weights", "op/smooth_scales/host/x86-64/fill:training", "scale",
       "scale[0] differs"),
    at("fake-quantize-one-code-more", "op/fake_quantize/host/x86-64/fill:training", "target",
       "differs"),
    at("split-rounds-to-even", "op/split_master/host/x86-64/fill:ties", "param", "differs"),
    at("remainder-lost", "op/join_master/host/x86-64/fill:sweep", "master", "differs"),
    at("remainder-rounding-kept", "op/join_master/host/x86-64/fill:sweep", "master", "differs"),
};

}  // namespace

Span<const FaultCase> operation_fault_plan() { return plan; }

}  // namespace zeroproof::verification
