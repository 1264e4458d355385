#pragma once
// Operations of the contract by the reference, and for each the same formula in fp64 with the same
// arguments, for differences of a loss. The fp64 formulas have the contract's order, but their bits
// are not fixed.

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "reference/operations.hpp"

namespace zeroproof::workload::formulas {

using reference::causal_softmax;
using reference::causal_softmax_backward;
using reference::rms_norm;
using reference::rms_norm_backward;
using reference::swiglu;
using reference::swiglu_backward;

void rms_norm(const Exec&, std::int64_t n, double eps, Span<const double> x,
              Span<const double> gain, Span<double> y, Span<double> deviation);
void rms_norm_backward(const Exec&, std::int64_t n, Span<const double> dy, Span<const double> x,
                       Span<const double> gain, Span<const double> deviation, Span<double> dx,
                       Span<double> d_gain);

/// Without bias, weight and limit: bias, weight and d_weight are empty, limit is 0.
void swiglu(const Exec&, std::int64_t columns, double limit, Span<const double> x,
            Span<const double> bias, Span<const double> weight, Span<double> y);
void swiglu_backward(const Exec&, std::int64_t columns, double limit, Span<const double> dy,
                     Span<const double> x, Span<const double> bias, Span<const double> weight,
                     Span<double> dx, Span<double> d_weight);

void causal_softmax(const Exec&, std::int64_t n, double scale, Span<const double> x,
                    Span<double> y);
void causal_softmax_backward(const Exec&, std::int64_t n, double scale, Span<const double> dy,
                             Span<const double> y, Span<double> dx);

}  // namespace zeroproof::workload::formulas
