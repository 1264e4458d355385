#pragma once

#include <string>
#include <vector>

#include "cuda/optimizer/param_columns.hpp"
#include "cuda/optimizer/params/param_gather.hpp"
#include "cuda/optimizer/params/param_scales.hpp"
#include "cuda/optimizer/params/param_store.hpp"
#include "cuda/optimizer/rank_memory.hpp"

namespace zeroproof::cuda {

/// The parameters of one rank: its shard, the whole parameters made of all shards, their scales and
/// their column-wise copy.
struct RankParams {
  /// Collective over comm where the constructors of the members are. All of it outlives this.
  RankParams(const RankLayout& layout, RankMemory& memory);
  RankParams(const RankParams&) = delete;
  RankParams& operator=(const RankParams&) = delete;

  /// Phase gather. Collective over comm from stage 1 on.
  void gather_all();

  /// Views for observers of phases cast and gather, and the values they wrote in phase cast.
  std::vector<ExposedBuffer> exposed_cast();
  std::vector<ExposedBuffer> exposed_gather() const;
  void take_shown();

  /// Name of a buffer whose red zone was overwritten, "" if none was.
  std::string damaged_guard() const;

  const RankLayout& layout;
  ParamStore store;
  ParamGather gather;
  ParamScales scales;
  ParamColumns columns;
};

}  // namespace zeroproof::cuda
