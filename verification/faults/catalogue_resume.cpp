#include <array>

#include "verification/faults/catalogue.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::array<Fault, 18> resume = {{
    {"resume-forgets-steps", FaultKind::state, "checkpoint", Phase::update,
     "the step count starts again at zero, and bias corrections and schedules with it", ""},
    {"resume-forgets-scale", FaultKind::state, "checkpoint", Phase::unscale,
     "the loss scale is the initial one again", ""},
    {"resume-forgets-growth", FaultKind::state, "checkpoint", Phase::unscale,
     "the steps without overflow are counted from zero", ""},
    {"resume-forgets-hysteresis", FaultKind::state, "checkpoint", Phase::unscale,
     "the hysteresis counter is full again, as if no overflow had occurred", ""},
    {"resume-forgets-tensor-steps", FaultKind::state, "checkpoint", Phase::update,
     "tensors that rested get the step count of the run", ""},
    {"resume-forgets-moment", FaultKind::state, "checkpoint", Phase::update,
     "the first moment begins at zero", ""},
    {"resume-reaches-first-rank-alone", FaultKind::state, "checkpoint", Phase::update,
     "rank 0 loads the moments and does not distribute them", ""},
    {"resume-counts-padding", FaultKind::state, "checkpoint", Phase::update,
     "buffers are saved with their padding and read without it", "deepspeedai/DeepSpeed#5105"},
    {"resume-reads-the-next-shard", FaultKind::state, "checkpoint", Phase::update,
     "a rank loads the part of a tensor after its own", ""},
    {"resume-shifts-index", FaultKind::state, "checkpoint", Phase::update,
     "the second moment is found by a position that is off by one",
     "wochenlong/lora-scripts-next#320"},
    {"resume-saves-before-the-update", FaultKind::state, "checkpoint", Phase::update,
     "the second moment is saved as it was before the last update", ""},
    {"resume-saves-a-torn-state", FaultKind::state, "checkpoint", Phase::update,
     "the last rank saves its masters of the step before", ""},
    {"resume-saves-rounded-masters", FaultKind::state, "checkpoint", Phase::update,
     "masters are saved in 16 bits", ""},
    {"resume-loses-resting-tensors", FaultKind::state, "checkpoint", Phase::update,
     "only stepped tensors are saved: masters of tensors without a gradient are lost and start at "
     "zero",
     "deepspeedai/DeepSpeed#3090"},
    {"resume-keeps-constructor-rate", FaultKind::state, "checkpoint", Phase::prepare,
     "tensors are loaded, but the learning rate stays that of the constructor",
     "pytorch/pytorch#129079"},
    {"resume-keeps-constructor-powers", FaultKind::state, "checkpoint", Phase::prepare,
     "powers of the betas are computed before the betas are set", "tenstorrent/tt-metal#53212"},
    {"resume-saves-scale-by-reference", FaultKind::state, "checkpoint", Phase::cast,
     "scales of 8-bit parameters are saved by reference, and are those of the next step when they "
     "are "
     "written",
     ""},
    {"resume-forgets-state-scales", FaultKind::state, "checkpoint", Phase::update,
     "state in 8 bits is loaded without the scales of its blocks", ""},
}};

}  // namespace

Span<const Fault> resume_faults() { return resume; }

}  // namespace zeroproof::verification
