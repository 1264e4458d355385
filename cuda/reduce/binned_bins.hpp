#pragma once
// The fields of binned sums (R11) in memory, addressed like node values.

#include <cstdint>
#include <vector>

#include "cuda/comm/exchange/bucket_plan.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/reduce/reduce_tools.hpp"

namespace zeroproof::cuda {

/// Bytes of the fields of `numel` sums: hi, lo, then top, padded so that several of them can be
/// contiguous.
inline std::int64_t bins_bytes(std::int64_t numel) { return 8 * numel + (numel + 3) / 4 * 4; }

/// `numel` sums in contiguous memory: packed, or flat from a global index on.
class Bins {
 public:
  static Bins packed(void* data, std::int64_t numel) {
    const auto place = [](void* at, DType dtype, std::int64_t count) {
      return NodeValues::packed(TensorView{at, dtype, count});
    };
    return Bins(data, numel, place);
  }
  static Bins flat(void* data, std::int64_t numel) {
    const auto place = [](void* at, DType dtype, std::int64_t count) {
      return NodeValues::flat(TensorView{at, dtype, count}, 0);
    };
    return Bins(data, numel, place);
  }

  /// Elements [begin, begin + numel) of packed sums, as packed sums.
  Bins part(std::int64_t begin, std::int64_t numel) const {
    const auto cut = [&](const NodeValues& field) {
      const TensorView& view = field.view();
      auto* const at = static_cast<std::byte*>(view.data) + begin * num_bytes(view.dtype);
      return NodeValues::packed(TensorView{at, view.dtype, numel});
    };
    return {cut(hi_), cut(lo_), cut(top_)};
  }

  BinnedSum piece(const Piece& piece) const {
    return {hi_.part<std::int32_t>(piece), lo_.part<std::int32_t>(piece),
            top_.part<std::uint8_t>(piece)};
  }

  PlacedBins placed() const { return {hi_, lo_, top_}; }

  /// Adds the copies of a rank's part of flat fields, as bins of part.numel sums.
  void pack_part(const RankPart& part, std::byte* packed, std::vector<Move>& moves) const {
    pack(part, hi_.view().data, hi_.base(), 4, packed, moves);
    pack(part, lo_.view().data, lo_.base(), 4, packed + 4 * part.numel, moves);
    pack(part, top_.view().data, top_.base(), 1, packed + 8 * part.numel, moves);
  }

  /// The same for all packed fields.
  void pack_all(std::byte* packed, std::vector<Move>& moves) const {
    for (const NodeValues* field : {&hi_, &lo_, &top_}) {
      moves.push_back({packed, field->view().data, field->view().num_bytes()});
      packed += field->view().num_bytes();
    }
  }

 private:
  Bins(NodeValues hi, NodeValues lo, NodeValues top) : hi_(hi), lo_(lo), top_(top) {}
  template <class Place>
  Bins(void* data, std::int64_t numel, const Place& place)
      : hi_(place(data, DType::u32, numel)),
        lo_(place(static_cast<std::byte*>(data) + 4 * numel, DType::u32, numel)),
        top_(place(static_cast<std::byte*>(data) + 8 * numel, DType::e4m3, numel)) {}

  NodeValues hi_, lo_, top_;
};

}  // namespace zeroproof::cuda
