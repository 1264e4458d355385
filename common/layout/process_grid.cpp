#include "common/layout/process_grid.hpp"

namespace zeroproof {

ProcessGrid::Place ProcessGrid::place(int rank) const {
  return {rank / (tp * cp), rank / tp % cp, rank % tp};
}

int ProcessGrid::rank(const Place& place) const { return (place.dp * cp + place.cp) * tp + place.tp; }

std::string ProcessGrid::id() const {
  return std::to_string(dp) + "x" + std::to_string(cp) + "x" + std::to_string(tp);
}

}  // namespace zeroproof
