#pragma once
// Stage 3 from outside: when a rank gathered, visited and released units, from its collectives, the
// calls of its model, and the bytes on its ledger.

#include <cstdint>
#include <vector>

#include "verification/tools/trace/traced_model.hpp"

namespace zeroproof::verification {

struct StepTrace;

/// An observation on a rank during reduce, and the bytes of gathered parameters at that moment.
struct UnitSighting {
  enum class Kind : std::uint8_t {
    begin,
    leaf,        ///< about to begin
    all_gather,  ///< about to begin: the memory for the unit is allocated
    visit,       ///< forward or backward, about to begin
    end
  };
  Kind kind = Kind::begin;
  std::int64_t bytes = 0;
  TracedVisit visit = {};
  int place = 2;  ///< as TracedMemory's; a unit gathered for it has the place before, one released
                  ///< in between the one before that
};

/// Events of units on every rank of a step. A gather belongs to the all_gather that performs it and
/// to the unit that is visited next: on a rank that visits none, to the unit that others visit
/// after the same all_gather. Without a visit on any rank it gathers something else (in an
/// optimizer with a fault). A single rank sends nothing: there the ledger shows that a unit was
/// allocated. A release is detected in the ledger, at the next sighting: the oldest units are gone
/// if their bytes are.
/// sightings: [world_size]; unit_bytes: [units] of a whole unit in memory.
/// Errors: ErrorCode::internal if the ledger has bytes that no units make up.
std::vector<std::vector<TracedVisit>> seen_visits(
    const std::vector<std::vector<UnitSighting>>& sightings,
    const std::vector<std::int64_t>& unit_bytes);

/// The visits of every step of production's ranks.
void find_visits(StepTrace& trace);

}  // namespace zeroproof::verification
