#pragma once
// Stage 3 from outside: when a rank gathered, visited and released units, by its collectives, by what its model was
// asked for, and by the bytes on its ledger.

#include <cstdint>
#include <vector>

#include "verification/tools/trace/traced_model.hpp"

namespace zeroproof::verification {

struct StepTrace;

/// What was seen on a rank during reduce, and the bytes of gathered parameters at that moment.
struct UnitSighting {
  enum class Kind : std::uint8_t {
    begin,
    leaf,        ///< about to begin
    all_gather,  ///< about to begin: the memory for the unit is there
    visit,       ///< forward or backward, about to begin
    end
  };
  Kind kind = Kind::begin;
  std::int64_t bytes = 0;
  TracedVisit visit = {};
};

/// What happened to units on every rank of a step. A gather is one by the all_gather that makes it, and of the unit
/// that is visited next: on a rank that visits none, the one that others visit after the same all_gather. Without a
/// visit on any rank it brings something else (of an optimizer with a fault). A rank alone sends nothing: there the
/// ledger shows that a unit has come. A release is seen by the ledger, at the next sighting: the units that have been
/// there for longest are gone if their bytes are.
/// sightings: [world_size]; unit_bytes: [units] of a whole unit in memory.
/// Errors: ErrorCode::internal if the ledger has bytes that no units make up.
std::vector<std::vector<TracedVisit>> seen_visits(
    const std::vector<std::vector<UnitSighting>>& sightings,
    const std::vector<std::int64_t>& unit_bytes);

/// The visits of every step of production's ranks.
void find_visits(StepTrace& trace);

}  // namespace zeroproof::verification
