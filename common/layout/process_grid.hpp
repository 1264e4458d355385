#pragma once
// Ranks as a grid: data, context and tensor parallelism, and several optimizer instances.

#include <cstdint>
#include <string>
#include <vector>

namespace zeroproof {

/// Sizes of a grid. Rank numbers run fastest over tp, then cp, then dp: rank = (dp * cp_size + cp) * tp_size + tp.
struct ProcessGrid {
  int dp = 1;  ///< data parallel: other micro-batches
  int cp = 1;  ///< context parallel: other positions of the same micro-batch; 1, 2, 4 or 8
  int tp = 1;  ///< tensor parallel: other columns and heads of the same layer; 1, 2, 4 or 8

  struct Place {
    int dp = 0;
    int cp = 0;
    int tp = 0;
    bool operator==(const Place&) const = default;
  };

  int world_size() const { return dp * cp * tp; }
  int data_ranks() const { return dp * cp; }  ///< ranks that share the state of one TP shard

  Place place(int rank) const;
  int rank(const Place& place) const;
  int data_rank(int rank) const { return rank / tp; }  ///< dp * cp_size + cp
  int tp_rank(int rank) const { return rank % tp; }

  std::string id() const;  ///< "2x1x4": dp x cp x tp
  bool operator==(const ProcessGrid&) const = default;
};

/// "2x1x4". Errors (ErrorCode::config): not three positive numbers, cp or tp not 1, 2, 4 or 8, cp * tp above 8.
ProcessGrid parse_grid(const std::string& text);

/// Errors (ErrorCode::config): the grid does not multiply out to world_size; names both numbers and the nearest grid
/// that does.
void require_grid(const ProcessGrid& grid, int world_size);

/// Position of a rank's tensor in the undistributed model (R13), and its replication.
///
/// Local element e of the tensor is undistributed element  begin + (e / row_numel) * row_stride + e % row_numel  of the
/// global numbering. A tensor that tensor parallelism does not split has row_numel = row_stride = numel.
struct TensorPlacement {
  bool tp_replicated = true;  ///< every TP rank has the whole tensor, and a part of its gradient
  std::int64_t begin = 0;
  std::int64_t row_numel = 1;
  std::int64_t row_stride = 1;

  std::int64_t global(std::int64_t element) const {
    return begin + element / row_numel * row_stride + element % row_numel;
  }
};

}  // namespace zeroproof
