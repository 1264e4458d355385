#pragma once
// Which instruction set the host implementations use. Every choice gives the same bits (R17).

#include <string_view>
#include <vector>

#include "common/base/exec.hpp"

namespace zeroproof::cuda::host {

/// "x86-64", "x86-64-v3", "x86-64-v4" or "best".
std::string_view name(Isa isa);

/// True if this processor can run code compiled for the instruction set.
bool isa_supported(Isa isa);

/// From the baseline to the widest set of this processor; never empty.
std::vector<Isa> supported_isas();

/// Resolves Isa::best: the environment variable ZP_ISA if set, else the widest supported set.
/// Errors: invalid_argument if ZP_ISA names no instruction set; unavailable if this processor lacks it.
Isa best_isa();

}  // namespace zeroproof::cuda::host
