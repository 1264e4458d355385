#include "verification/tools/trace/unit_sightings.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "verification/tools/trace/trace.hpp"

namespace zeroproof::verification {
namespace {

using Event = TracedVisit::Event;
using Kind = UnitSighting::Kind;

/// The visit that follows each all_gather before the next one; none on a rank without a
/// micro-batch.
std::vector<std::optional<TracedVisit>> visits_after_gathers(
    const std::vector<UnitSighting>& sightings) {
  std::vector<std::optional<TracedVisit>> next;
  for (const UnitSighting& seen : sightings) {
    if (seen.kind == Kind::all_gather) next.emplace_back();
    if (seen.kind == Kind::visit && !next.empty() && !next.back()) next.back() = seen.visit;
  }
  return next;
}

/// Units present on one rank, and their events.
class PresentUnits {
 public:
  PresentUnits(const std::vector<std::int64_t>& unit_bytes, std::int64_t bytes_before)
      : unit_bytes_(unit_bytes), bytes_before_(bytes_before), bytes_(bytes_before) {}

  /// Place of the sighting that the following calls are for.
  void set_place(int place) { place_ = place; }

  /// Its memory is allocated.
  void gather(const TracedVisit& of, std::int64_t bytes) {
    require(release_until(bytes, bytes_of(of.unit)), bytes);
    come(of);
  }

  /// gathers: whether units arrive in all_gathers, which are recorded.
  void visit(const TracedVisit& visit, std::int64_t bytes, bool gathers) {
    const bool there = std::any_of(present_.begin(), present_.end(),
                                   [&](const TracedVisit& one) { return one.unit == visit.unit; });
    if (!gathers && !there && release_until(bytes, bytes_of(visit.unit))) {
      come(visit);
    } else {
      look(bytes);
    }
    add(visit, 0);
  }

  /// No unit arrives.
  void look(std::int64_t bytes) { require(release_until(bytes, 0), bytes); }

  std::vector<TracedVisit> take() { return std::move(all_); }

 private:
  std::int64_t bytes_of(int unit) const { return unit_bytes_[unit]; }

  void come(const TracedVisit& of) {
    add({Event::gather, of.micro_batch, of.unit}, bytes_of(of.unit));
    present_.push_back(all_.back());
  }

  void add(const TracedVisit& visit, std::int64_t change) {
    bytes_ += change;
    const int before = visit.event == Event::release ? 2 : visit.event == Event::gather ? 1 : 0;
    all_.push_back({visit.event, visit.micro_batch, visit.unit, place_ - before, bytes_, change});
  }

  /// Releases the oldest units until the remaining ones and `coming` bytes are all of the gathered
  /// bytes; none if no number fits.
  bool release_until(std::int64_t bytes, std::int64_t coming) {
    std::int64_t there = bytes_before_ + coming;
    for (const TracedVisit& one : present_) there += bytes_of(one.unit);
    std::size_t gone = 0;
    for (; there > bytes && gone < present_.size(); ++gone) there -= bytes_of(present_[gone].unit);
    if (there != bytes) return false;
    for (std::size_t i = 0; i < gone; ++i) {
      const TracedVisit& one = present_[i];
      add({Event::release, one.micro_batch, one.unit}, -bytes_of(one.unit));
    }
    present_.erase(present_.begin(), present_.begin() + static_cast<std::ptrdiff_t>(gone));
    return true;
  }

  void require(bool fits, std::int64_t bytes) const {
    ZP_CHECK(
        fits, ErrorCode::internal,
        "a rank holds " + std::to_string(bytes - bytes_before_) + " bytes of gathered parameters",
        "that is not the size of " + std::to_string(present_.size()) + " units and one more",
        "report this as a defect of the trace");
  }

  const std::vector<std::int64_t>& unit_bytes_;
  const std::int64_t bytes_before_;
  std::int64_t bytes_;
  int place_ = 0;
  std::vector<TracedVisit> present_;  // as gathered, the oldest first
  std::vector<TracedVisit> all_;
};

}  // namespace

std::vector<std::vector<TracedVisit>> seen_visits(
    const std::vector<std::vector<UnitSighting>>& sightings,
    const std::vector<std::int64_t>& unit_bytes) {
  std::vector<std::vector<std::optional<TracedVisit>>> next;
  for (const std::vector<UnitSighting>& mine : sightings)
    next.push_back(visits_after_gathers(mine));
  const auto gathered = [&](std::size_t rank, std::size_t call) -> std::optional<TracedVisit> {
    if (next[rank][call]) return next[rank][call];
    for (const auto& other : next) {
      if (call < other.size() && other[call])
        return TracedVisit{Event::gather, -1, other[call]->unit};
    }
    return {};
  };
  std::vector<std::vector<TracedVisit>> all;
  for (std::size_t rank = 0; rank < sightings.size(); ++rank) {
    const std::vector<UnitSighting>& mine = sightings[rank];
    if (mine.empty()) {
      all.emplace_back();
      continue;
    }
    PresentUnits units(unit_bytes, mine.front().bytes);
    std::size_t call = 0;
    for (const UnitSighting& seen : mine) {
      units.set_place(seen.place);
      const bool gathers = seen.kind == Kind::all_gather;
      const std::optional<TracedVisit> of = gathers ? gathered(rank, call++) : std::nullopt;
      if (of) {
        units.gather(*of, seen.bytes);
      } else if (seen.kind == Kind::visit) {
        units.visit(seen.visit, seen.bytes, sightings.size() > 1);
      } else {
        units.look(seen.bytes);
      }
    }
    all.push_back(units.take());
  }
  return all;
}

void find_visits(StepTrace& trace) {
  std::vector<std::int64_t> unit_bytes;
  for (const FlatRange& unit : trace.model.units()) {
    unit_bytes.push_back(unit.numel() * num_bytes(trace.settings.param_dtype));
  }
  for (std::size_t step = 0; step < static_cast<std::size_t>(trace.settings.steps); ++step) {
    std::vector<std::vector<UnitSighting>> sightings;
    for (const TracedRank& rank : trace.production) sightings.push_back(rank.steps[step].sightings);
    std::vector<std::vector<TracedVisit>> visits = seen_visits(sightings, unit_bytes);
    for (std::size_t r = 0; r < visits.size(); ++r) {
      trace.production[r].steps[step].visits = std::move(visits[r]);
    }
  }
}

}  // namespace zeroproof::verification
