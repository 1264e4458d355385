#pragma once
// Tensors split between TP ranks, and with them blocks of state (R25).

#include "tests/support/rank_model.hpp"

namespace zeroproof::tests {

/// Nearly every block is split between TP ranks.
inline CutTensors split_blocks() {
  return {{{"gain", {37}}, {"column", {60, 18}}, {"row", {10, 17}}, {"bias", {1030}}},
          {-1, 1, 0, -1}};
}

/// No block is split, and a part is longer than a tile of the host.
inline CutTensors whole_blocks() {
  return {{{"column", {3, 1024}}, {"row", {16, 640}}, {"gain", {37}}, {"bias", {2048}}},
          {1, 0, -1, 0}};
}

/// Ranks have parts of unequal lengths, some of them empty.
inline CutTensors uneven_blocks() {
  return {{{"column", {5, 130}},
           {"middle", {3, 6, 50}},
           {"bias", {1300}},
           {"few", {3}},
           {"row", {7, 40}}},
          {1, 1, -1, 0, 0}};
}

}  // namespace zeroproof::tests
