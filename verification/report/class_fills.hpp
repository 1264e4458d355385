#pragma once
// Colours of the classes of memory, used by every drawing.

#include <array>

#include "common/step/memory_use.hpp"

namespace zeroproof::verification {

/// The palette of Okabe and Ito, darkened or lightened so that it is readable on white and on
/// black.
inline constexpr std::array<const char*, num_memory_classes> class_fills = {
    "#0f78b8", "#4fa9dc", "#d98c00", "#e0b33c", "#c2569a", "#0c9a73", "#5fbf9f", "#9a8f86"};

}  // namespace zeroproof::verification
