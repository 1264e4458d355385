#include <array>

#include "verification/faults/catalogue.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::array<Fault, 25> lbfgs = {{
    {"lbfgs-dot-of-own-shard", FaultKind::communicator, "reduction", std::nullopt,
     "every rank takes dot products over its own shard", ""},
    {"lbfgs-dot-in-fp32", FaultKind::implementation, "precision", std::nullopt,
     "dot products are added in fp32", "chokkan/liblbfgs#12"},
    {"lbfgs-length-of-own-shard", FaultKind::communicator, "reduction", std::nullopt,
     "every rank takes the first step length from its own shard", ""},
    {"lbfgs-max-abs-of-own-shard", FaultKind::communicator, "communication", std::nullopt,
     "every rank decides by its own gradient whether to go on", "pytorch/pytorch#30439"},
    {"lbfgs-padding-counted", FaultKind::implementation, "memory layout", std::nullopt,
     "padding counts as elements", ""},
    {"lbfgs-curvature-not-tested", FaultKind::implementation, "curvature memory", std::nullopt,
     "a pair of negative curvature is stored", "uxlfoundation/oneDAL#3158"},
    {"lbfgs-unmade-move-remembered", FaultKind::implementation, "curvature memory", std::nullopt,
     "a move that was never made waits to become a pair", ""},
    {"lbfgs-newest-pair-removed", FaultKind::implementation, "curvature memory", std::nullopt,
     "a full memory drops its newest pair", ""},
    {"lbfgs-h-of-oldest-pair", FaultKind::implementation, "curvature memory", std::nullopt,
     "h comes from the oldest pair of the memory", "google/jaxopt#233"},
    {"lbfgs-history-one-behind", FaultKind::implementation, "curvature memory", std::nullopt,
     "the direction is found before the last pair is stored", "gonum/optimize#8"},
    {"lbfgs-old-gradient-aliased", FaultKind::implementation, "curvature memory", std::nullopt,
     "the gradient before a move is the buffer the next one is written to", ""},
    {"lbfgs-second-loop-adds-al", FaultKind::implementation, "curvature memory", std::nullopt,
     "the second loop does not subtract the value it computed", ""},
    {"lbfgs-pending-lost-on-load", FaultKind::state, "checkpoint", std::nullopt,
     "a loaded state has lost the move whose pair is not stored yet", ""},
    {"lbfgs-nonfinite-keeps-memory", FaultKind::implementation, "curvature memory", std::nullopt,
     "pairs are kept after a point that is not finite", "pytorch/pytorch#5953"},
    {"lbfgs-failed-search-keeps-memory", FaultKind::implementation, "line search", std::nullopt,
     "pairs are kept after a failed search", "JuliaNLSolvers/Optim.jl#1254"},
    {"lbfgs-failed-search-keeps-x", FaultKind::implementation, "line search", std::nullopt,
     "x stays at the last trial of a failed search", "hjmshi/PyTorch-LBFGS#9"},
    {"lbfgs-x-restored-by-subtraction", FaultKind::implementation, "line search", std::nullopt,
     "x is restored by subtracting the rounded move", "hjmshi/PyTorch-LBFGS#3"},
    {"lbfgs-trials-accumulate", FaultKind::implementation, "line search", std::nullopt,
     "every trial starts where the last one ended", ""},
    {"lbfgs-max-eval-per-iteration", FaultKind::implementation, "step count", std::nullopt,
     "evaluations are counted from zero in every iteration", ""},
    {"lbfgs-wolfe-slope-signed", FaultKind::implementation, "line search", std::nullopt,
     "the curvature condition omits the magnitude: a steep downhill slope passes", ""},
    {"lbfgs-wolfe-bracket-not-moved", FaultKind::implementation, "line search", std::nullopt,
     "a trial that is too high does not become an end of the bracket", ""},
    {"lbfgs-wolfe-other-root", FaultKind::implementation, "line search", std::nullopt,
     "cubic interpolation takes the root of the other sign, the cubic's maximum", ""},
    {"lbfgs-wolfe-keeps-last-point", FaultKind::implementation, "line search", std::nullopt,
     "x stays at the last trial where an earlier one is taken", ""},
    {"lbfgs-wolfe-keeps-last-loss", FaultKind::implementation, "line search", std::nullopt,
     "the loss stays that of the last trial where an earlier one is taken", ""},
    {"lbfgs-wolfe-keeps-last-gradient", FaultKind::implementation, "line search", std::nullopt,
     "the gradient stays that of the last trial where an earlier one is taken", ""},
}};

}  // namespace

Span<const Fault> lbfgs_faults() { return lbfgs; }

}  // namespace zeroproof::verification
