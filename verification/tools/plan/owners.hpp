#pragma once
// Owners of the state: for every rank, the elements of tensors whose master and state it keeps, and
// their places.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/layout/peer_layouts.hpp"
#include "verification/tools/plan/model.hpp"

namespace zeroproof::verification {

struct OwnersSettings {
  LayoutKind layout = LayoutKind::contract;
  int world_size = 1;  ///< ranks that share the state
  int tp = 1;
  std::int64_t bucket_numel = 262144;
  std::optional<int> rank;    ///< this one alone; none: all
  std::vector<int> group_of;  ///< [num_tensors] param group of every tensor; empty: one for all
};

/// The part of one rank.
struct RankOwns {
  int rank = 0;
  std::int64_t numel = 0;    ///< elements of tensors
  std::int64_t padding = 0;  ///< further elements that it allocates
  std::vector<PeerSlice> slices;
};

struct Owners {
  OwnersSettings settings;
  std::string model;
  FlatLayout layout;  ///< of a TP rank
  std::vector<RankOwns> ranks;
};

/// Errors: ErrorCode::config for a rank that does not exist; invalid_argument as make_shard_map.
Owners make_owners(const PlannedModel& model, const OwnersSettings& settings);

/// A table for every rank, at most plan_columns columns but for long names: neighbouring elements
/// of a tensor are a row, and so is every stretch of padding.
std::string owners_text(const Owners& owners, bool colour);

/// Schema zeroproof-owners/1: the same numbers.
std::string owners_json(const Owners& owners);

}  // namespace zeroproof::verification
