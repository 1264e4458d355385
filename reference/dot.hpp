#pragma once

#include "common/contracts/dot.hpp"

namespace zeroproof::reference {

DotAccumulateFn dot_accumulate;
DotNormaliseFn dot_normalise;
DotFinishFn dot_finish;

}  // namespace zeroproof::reference
