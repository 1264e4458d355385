#include <array>

#include "verification/faults/catalogue.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::array<Fault, 16> formats = {{
    {"scale-of-other-format", FaultKind::implementation, "8-bit scales", Phase::cast,
     "scales are made for e4m3, the format of the forward pass, for every quantized tensor", ""},
    {"code-one-branch-short", FaultKind::implementation, "8-bit scales", Phase::cast,
     "the search for a code of e4m3 ends before it compares with the middle of two", ""},
    {"cast-twice", FaultKind::implementation, "8-bit scales", Phase::cast,
     "masters are rounded to bf16 and then to 8 bits, without a request", ""},
    {"block-scale-of-neighbour", FaultKind::implementation, "8-bit scales", Phase::cast,
     "a block is quantized with the scale of the next one", ""},
    {"codes-by-last-scale", FaultKind::implementation, "8-bit scales", Phase::cast,
     "quantization uses the pointer to the scales of the step before", ""},
    {"scale-inv-not-renewed", FaultKind::implementation, "8-bit scales", Phase::cast,
     "the inverse scales are not updated when scales change", ""},
    {"history-rolls-when-idle", FaultKind::implementation, "8-bit scales", Phase::cast,
     "the amax history of a tensor without a gradient moves on", ""},
    {"amax-makes-its-own-scale", FaultKind::implementation, "8-bit scales", Phase::cast,
     "under the delayed recipe the amax of a step makes the scale of the same step", ""},
    {"amax-not-over-tp", FaultKind::communicator, "8-bit scales", Phase::cast,
     "the amax of a tensor that TP splits is joined over data ranks only", ""},
    {"columns-not-rebuilt", FaultKind::implementation, "8-bit scales", Phase::gather,
     "the copy by columns is that of the parameters that were loaded", ""},
    {"state-scale-of-neighbour", FaultKind::implementation, "stored state", Phase::update,
     "codes of state are read with the scale of the next block", ""},
    {"state-zero-drifts", FaultKind::implementation, "stored state", Phase::update,
     "the code book of state has no zero, and a zero becomes half a step", ""},
    {"resting-state-stored-again", FaultKind::implementation, "stored state", Phase::update,
     "state of a tensor without a gradient is read and stored again", ""},
    {"state-scale-of-last-step", FaultKind::implementation, "stored state", Phase::update,
     "a block of state is stored with its old scale", ""},
    {"state-amax-not-joined", FaultKind::communicator, "stored state", Phase::update,
     "ranks that share a block of state scale their parts separately", ""},
    {"master-drawn-as-last-step", FaultKind::implementation, "stored state", Phase::update,
     "a bf16 master is rounded with the random words of the update before", ""},
}};

}  // namespace

Span<const Fault> format_faults() { return formats; }

}  // namespace zeroproof::verification
