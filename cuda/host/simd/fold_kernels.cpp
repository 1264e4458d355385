// Sums of many nodes (R11), one row at a time: every operand is read once, all of them side by
// side, and the partial sums of a row stay in the first-level cache.

#include "cuda/host/simd/chunk_sums.hpp"
#include "cuda/host/simd/variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {
namespace {

/// `count` values of a row: a constant for all rows but the last, so that loops over it need no ends.
struct WholeRow {
  static constexpr int count = lanes;
};
struct PartOfRow {
  int count;
};

/// Stores a row of values; bypassing the caches if `streamed`, then target starts a cache line.
template <bool streamed, class Row>
inline void store_row(const Row& row, const float* values, float* target) {
  int i = 0;
  if constexpr (streamed) {
#if defined(__AVX512F__)
    for (; i + line <= row.count; i += line)
      _mm512_stream_ps(target + i, _mm512_loadu_ps(values + i));
#else
    for (; i + 4 <= row.count; i += 4) _mm_stream_ps(target + i, _mm_loadu_ps(values + i));
#endif
  }
#pragma omp simd
  for (int l = i; l < row.count; ++l) target[l] = values[l];
}

template <class Row>
inline void add_row(const Row& row, const float* left, const float* right, float* sum) {
#pragma omp simd
  for (int l = 0; l < row.count; ++l) sum[l] = left[l] + right[l];
}

class FoldedRows {
 public:
  explicit FoldedRows(const Fold& fold) : fold_(fold) {}

  /// The sum of a row that begins at `begin`: in `to`, or in the memory of the only operand.
  template <class Row>
  inline const float* sum(const Row& row, std::int64_t begin, float* to) {
    const std::int64_t last = fold_.num_additions - 1;
    if (last < 0) return operand(row, 0, begin, to);
    for (std::int64_t k = 0; k < last; ++k) {
      const FoldAddition& a = fold_.additions[k];
      add_row(row, value(row, a.left, begin, wide_[0]), value(row, a.right, begin, wide_[1]),
              slots_[a.to]);
    }
    const FoldAddition& a = fold_.additions[last];
    add_row(row, value(row, a.left, begin, wide_[0]), value(row, a.right, begin, wide_[1]), to);
    return to;
  }

 private:
  template <class Row>
  inline const float* value(const Row& row, std::int64_t at, std::int64_t begin, float* wide) {
    return at >= 0 ? slots_[at] : operand(row, -1 - at, begin, wide);
  }

  /// Address of the fp32 values of an operand: its memory, or `wide`.
  template <class Row>
  inline const float* operand(const Row& row, std::int64_t index, std::int64_t begin, float* wide) {
    const GradStretch& from = fold_.operands[index];
    const std::int64_t width = from.dtype == DType::fp32 ? 4 : 2;
    const char* at = static_cast<const char*>(from.data) + begin * width;
    prefetch_ahead(at);
    if (width == 4) prefetch_ahead(at + line * width);
    return values_from(from, begin, row.count, wide);
  }

  const Fold& fold_;
  alignas(64) float wide_[2][lanes];
  alignas(64) float slots_[most_fold_slots][lanes];
};

/// Calls body(row, i) for every row of numel elements.
template <class Body>
inline void for_rows(std::int64_t numel, const Body& body) {
  std::int64_t i = 0;
  for (; i + lanes <= numel; i += lanes) body(WholeRow{}, i);
  if (i < numel) body(PartOfRow{static_cast<int>(numel - i)}, i);
}

template <bool streamed>
inline void fold_rows(const Fold& fold, std::int64_t begin, float* sum, std::int64_t numel) {
  FoldedRows rows(fold);
  for_rows(numel, [&](const auto& row, std::int64_t i) {
    alignas(64) float values[lanes];
    store_row<streamed>(row, rows.sum(row, begin + i, values), sum + i);
  });
}

/// Stores the sums on the way, times inv_scale.
template <bool streamed>
struct Folded {
  float inv_scale;
  FoldedRows rows;
  std::int64_t begin;
  float* target;

  inline void values(std::int64_t i, int count, float* found) {
    count == lanes ? row_values(WholeRow{}, i, found) : row_values(PartOfRow{count}, i, found);
  }

 private:
  template <class Row>
  inline void row_values(const Row& row, std::int64_t i, float* found) {
    alignas(64) float values[lanes];
    const float* sum = rows.sum(row, begin + i, values);
    store_row<streamed>(row, sum, target + i);
#pragma omp simd
    for (int l = 0; l < row.count; ++l) found[l] = sum[l] * inv_scale;
  }
};

inline bool starts_a_line(const float* target) {
  return (reinterpret_cast<std::uintptr_t>(target) & 63U) == 0;
}

}  // namespace

void fold(const Fold& fold, std::int64_t begin, float* sum, std::int64_t numel, bool streamed) {
  if (!streamed || !starts_a_line(sum)) return fold_rows<false>(fold, begin, sum, numel);
  fold_rows<true>(fold, begin, sum, numel);
  _mm_sfence();
}

std::uint32_t fold_chunk_sums(float inv_scale, const Fold& fold, std::int64_t begin, float* sum,
                              std::int64_t numel, bool streamed, double* sums) {
  if (!streamed || !starts_a_line(sum)) {
    Folded<false> source{inv_scale, FoldedRows(fold), begin, sum};
    return all_chunks(source, numel, sums);
  }
  Folded<true> source{inv_scale, FoldedRows(fold), begin, sum};
  const std::uint32_t found = all_chunks(source, numel, sums);
  _mm_sfence();
  return found;
}

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
