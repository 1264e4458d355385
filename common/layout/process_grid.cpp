#include "common/layout/process_grid.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <limits>

#include "common/base/error.hpp"

namespace zeroproof {
namespace {

/// Far beyond any machine, and small enough that world_size() cannot overflow.
constexpr int most_dp = 1 << 20;

/// Exponent of 1, 2, 4 or 8, else -1.
int log2_of(int size) {
  for (int exponent = 0; exponent < 4; ++exponent) {
    if (size == 1 << exponent) return exponent;
  }
  return -1;
}

/// Three numbers without signs or leading zeros, so that a grid has one spelling; {0, 0, 0} otherwise.
std::array<int, 3> parse_sizes(const std::string& text) {
  std::array<int, 3> sizes{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0 && (at == end || *at++ != 'x')) return {};
    if (at == end || *at < '1') return {};
    const auto [next, error] = std::from_chars(at, end, sizes[i]);
    if (error != std::errc()) return {};
    at = next;
  }
  return at == end ? sizes : std::array<int, 3>{};
}

/// The grid of world_size ranks whose tp and cp need the fewest doublings or halvings; tp is kept if possible.
ProcessGrid nearest_grid(const ProcessGrid& grid, int world_size) {
  ProcessGrid best{world_size, 1, 1};
  int least = std::numeric_limits<int>::max();
  for (int tp = 1; tp <= 8; tp *= 2) {
    for (int cp = 1; cp * tp <= 8; cp *= 2) {
      if (world_size % (cp * tp) != 0) continue;
      const int tp_steps = std::abs(log2_of(tp) - log2_of(grid.tp));
      const int cp_steps = std::abs(log2_of(cp) - log2_of(grid.cp));
      const int distance = 8 * (tp_steps + cp_steps) + tp_steps;
      if (distance < least) {
        least = distance;
        best = {world_size / (cp * tp), cp, tp};
      }
    }
  }
  return best;
}

}  // namespace

ProcessGrid::Place ProcessGrid::place(int rank) const {
  return {rank / (tp * cp), rank / tp % cp, rank % tp};
}

int ProcessGrid::rank(const Place& place) const {
  return (place.dp * cp + place.cp) * tp + place.tp;
}

std::string ProcessGrid::id() const {
  return std::to_string(dp) + "x" + std::to_string(cp) + "x" + std::to_string(tp);
}

ProcessGrid parse_grid(const std::string& text) {
  const std::array<int, 3> sizes = parse_sizes(text);
  ZP_CHECK(sizes[0] >= 1 && sizes[0] <= most_dp, ErrorCode::config,
           "process grid '" + text + "' does not exist",
           "a grid is three positive numbers, DPxCPxTP", "write for example 2x1x4");
  const ProcessGrid grid{sizes[0], sizes[1], sizes[2]};
  ZP_CHECK(log2_of(grid.cp) >= 0 && log2_of(grid.tp) >= 0, ErrorCode::config,
           "process grid " + text + " has a CP or TP size other than 1, 2, 4 and 8",
           "sums inside the model are split between eight blocks, rule R18",
           "use one of these sizes");
  ZP_CHECK(grid.cp * grid.tp <= 8, ErrorCode::config,
           "process grid " + text + " splits a micro-batch into " +
               std::to_string(grid.cp * grid.tp) + " parts",
           "a sum has eight blocks, rule R18", "let CP times TP be at most 8");
  return grid;
}

void require_grid(const ProcessGrid& grid, int world_size) {
  ZP_CHECK(world_size >= 1, ErrorCode::config,
           "a world of " + std::to_string(world_size) + " ranks does not exist",
           "a run has at least one rank", "use 1 rank or more");
  ZP_CHECK(grid.world_size() == world_size, ErrorCode::config,
           "process grid " + grid.id() + " has " + std::to_string(grid.world_size()) +
               " ranks, the world " + std::to_string(world_size),
           "every rank has one position in the grid",
           "use " + nearest_grid(grid, world_size).id() + ", or start " +
               std::to_string(grid.world_size()) + " ranks");
}

}  // namespace zeroproof
