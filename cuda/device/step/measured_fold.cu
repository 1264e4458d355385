#include "cuda/device/step/fold_nodes.hpp"

#include <type_traits>

#include "cuda/device/step/fold_values.cuh"
#include "cuda/device/step/inv_scale.cuh"
#include "cuda/device/step/nonfinite_flag.cuh"
#include "cuda/device/step/norm_collect.cuh"

namespace zeroproof::cuda::device {

namespace {

/// A group of pieces (see share_parts) has at most 2^24 deposits, so a block makes at most 2^30
/// between two carries; 2^32 - 1 would be allowed.
constexpr int groups_between_carries = 64;
static_assert(groups_between_carries * block_threads * StepPiece::most_numel < std::int64_t{1}
                                                                                   << 32);

/// Blocks per multiprocessor. Without this number the compiler limits registers in the wrong place.
constexpr int tree_blocks = 4, programme_blocks = 3;

constexpr int chunk_numel = static_cast<int>(norm_chunk_numel);
constexpr int warps = block_threads / norm_num_lanes;

/// Measurement by one thread: g1 of every element, deposits of those that count.
template <class Collect>
struct Measurer {
  Unscaling unscaling;
  Collect collect;
};

/// Measures every element separately, in the order of run_pieces.
template <class Fold, class Collect>
struct MeasuredElements {
  static constexpr int packs_at_once = Fold::packs_at_once;
  const Fold& fold;
  Measurer<Collect>& measurer;
  bool counted;

  ZP_DEVICE void one(const Place& place) const { run<1, 1>(place); }

  template <int count>
  ZP_DEVICE void packs(const Place& place) const {
    run<count, walk_pack_numel>(place);
  }

 private:
  template <int count, int width>
  ZP_DEVICE void run(const Place& place) const {
    fold.template run<count, width, 1>(place, pack_stride,
                                       [this](const Place& at, const Floats<width>& values) {
                                         store(fold.sum, at, values);
                                         ZP_UNROLL
                                         for (int k = 0; k < width; ++k) {
                                           const float g1 = measurer.unscaling(values.v[k]);
                                           if (counted) measurer.collect.add(g1);
                                         }
                                       });
  }
};

/// One chunk by one warp, lane l being lane l of R12: four rows of 32 elements form a pack.
template <class Fold>
ZP_DEVICE void measure_chunk(const Fold& fold, const Piece& piece, std::int64_t chunk, bool counted,
                             Measurer<CollectChunks>& measurer) {
  constexpr int row = norm_num_lanes, rows = walk_pack_numel;
  const std::int64_t begin = chunk * chunk_numel + threadIdx.x % norm_num_lanes;
  const std::int64_t left = (piece.numel - begin + row - 1) / row;
  const int count =
      left < norm_num_lanes ? static_cast<int>(left) : norm_num_lanes;  // of this lane; may be 0
  const Place first = Place{piece.local_begin, piece.global_begin - piece.local_begin}.after(begin);
  double sum = 0.0;
  const auto put = [&](const Place& at, const auto& values) {
    store<row>(fold.sum, at, values);
    ZP_UNROLL
    for (const float g : values.v) sum = CollectChunks::with_square(sum, measurer.unscaling(g));
  };
  constexpr int at_once = Fold::packs_at_once;
  int s = 0;
  for (; s + at_once * rows <= count; s += at_once * rows)
    fold.template run<at_once, rows, row>(first.after(s * row), rows * row, put);
  if constexpr (at_once > 1) {
    for (; s + rows <= count; s += rows)
      fold.template run<1, rows, row>(first.after(s * row), 0, put);
  }
  for (; s < count; ++s) fold.template run<1, 1, row>(first.after(s * row), 0, put);
  if (counted) measurer.collect.deposit(sum);
}

ZP_DEVICE bool counts(const GradMeasurement& measurement, const Piece& piece) {
  return measurement.counted == nullptr ||
         ((measurement.counted[piece.tensor / 64] >> (piece.tensor % 64)) & 1U) != 0U;
}

template <class Collect, class Fold>
ZP_DEVICE void measured_fold(const Fold& fold, const DevicePieces& pieces, const PackHeads& heads,
                             const GradMeasurement& measurement) {
  Measurer<Collect> measurer;
  const bool finds =
      measurement.state->halt == 0U &&
      make_inv_scale(*measurement.state, *measurement.input, measurer.unscaling.inv_scale);
  measurer.collect.start();
  const auto between = [&](std::int64_t first) {
    if (first / block_threads % groups_between_carries == groups_between_carries - 1)
      measurer.collect.carry();
  };
  if constexpr (std::is_same_v<Collect, CollectChunks>) {
    share_parts<chunk_numel, warps>(
        pieces, static_cast<int>(threadIdx.x) / norm_num_lanes,
        [&](const Piece& piece, std::int64_t chunk) {
          measure_chunk(fold, piece, chunk, counts(measurement, piece), measurer);
        },
        between);
  } else {
    share_parts<part_numel, 1>(
        pieces, 0,
        [&](const Piece& piece, std::int64_t part) {
          run_part(piece, part, heads,
                   MeasuredElements<Fold, Collect>{fold, measurer, counts(measurement, piece)});
        },
        between);
  }
  if (!finds) return;
  measurer.unscaling.finish(measurement.found);
  measurer.collect.finish(measurement.found, Collect::words_of(measurement.found));
}

template <class Collect, class Fold>
ZP_KERNEL_BLOCKS(tree_blocks)
measured_tree_kernel(Fold fold, DevicePieces pieces, PackHeads heads, GradMeasurement measurement) {
  measured_fold<Collect>(fold, pieces, heads, measurement);
}

template <class Collect, int most_operands>
ZP_KERNEL_BLOCKS(programme_blocks)
measured_programme_kernel(FoldArgument<most_operands> fold, DevicePieces pieces, PackHeads heads,
                          GradMeasurement measurement) {
  ZP_SHARED_ARRAY(Floats<4>, stack, (fold_stack(most_operands) * block_threads));
  const ProgrammeFold<most_operands> programme{fold, stack + threadIdx.x};
  measured_fold<Collect>(programme, pieces, heads, measurement);
}

/// Trees have separate kernels for chunk1024 only, the norm form of the last fold of most runs.
template <class Collect>
struct Launch {
  const DevicePieces& pieces;
  const GradMeasurement& measurement;

  template <LoadType type, int n>
  void operator()(const TreeFold<type, n>& fold, const PackHeads& heads) const {
    if constexpr (std::is_same_v<Collect, CollectChunks>) {
      launch(measured_tree_kernel<Collect, TreeFold<type, n>>, walk_grid(tree_blocks),
             block_threads, fold, pieces, heads, measurement);
    } else {
      FoldArgument<small_fold> programme{};
      std::copy(fold.operands, fold.operands + n, programme.operands);
      programme.sum = fold.sum;
      programme.num_codes = 1;
      programme.codes[0] = FoldCode::of(FoldAction::tree, log2_of(n), type);
      (*this)(programme, heads);
    }
  }
  template <int most_operands>
  void operator()(const FoldArgument<most_operands>& fold, const PackHeads& heads) const {
    launch(measured_programme_kernel<Collect, most_operands>, walk_grid(programme_blocks),
           block_threads, fold, pieces, heads, measurement);
  }

 private:
  static constexpr int log2_of(int n) { return n == 1 ? 0 : 1 + log2_of(n / 2); }
};

}  // namespace

void enqueue_measured_fold(const DevicePieces& pieces, const host::FoldPlan& plan,
                           Span<const PlacedValues> operands, const PlacedValues& sum,
                           const GradMeasurement& measurement) {
  check_fold(plan, operands, sum);
  if (pieces.count <= 0) return;
  visit_form(measurement.form, [&](auto collect) {
    visit_fold(plan, operands, sum, Launch<decltype(collect)>{pieces, measurement});
  });
}

}  // namespace zeroproof::cuda::device
