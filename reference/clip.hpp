#pragma once

#include "common/contracts/clip.hpp"

namespace zeroproof::reference {

ClipCoefFn clip_coef;
ClipFn clip;
ClipValueFn clip_value;

}  // namespace zeroproof::reference
