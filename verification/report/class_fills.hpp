#pragma once
// Colours of the classes of memory, the same wherever they are drawn.

#include <array>

#include "common/step/memory_use.hpp"

namespace zeroproof::verification {

/// Okabe and Ito's, darkened or lightened to the middle, so that they read on white and on black.
inline constexpr std::array<const char*, num_memory_classes> class_fills = {
    "#0f78b8", "#4fa9dc", "#d98c00", "#e0b33c", "#c2569a", "#0c9a73", "#5fbf9f", "#9a8f86"};

}  // namespace zeroproof::verification
