#include "cuda/device/step/fold_nodes.hpp"

#include "cuda/device/step/fold_values.cuh"

namespace zeroproof::cuda::device {

namespace {

/// Only writes the values of a fold.
template <class Fold>
struct Written {
  static constexpr int packs_at_once = Fold::packs_at_once;
  const Fold& fold;

  ZP_DEVICE void one(const Place& place) const { run<1, 1>(place); }

  template <int count>
  ZP_DEVICE void packs(const Place& place) const {
    run<count, walk_pack_numel>(place);
  }

 private:
  template <int count, int width>
  ZP_DEVICE void run(const Place& place) const {
    fold.template run<count, width, 1>(
        place, pack_stride,
        [this](const Place& at, const auto& values) { store(fold.sum, at, values); });
  }
};

template <class Fold>
ZP_KERNEL tree_fold_kernel(Fold fold, DevicePieces pieces, PackHeads heads) {
  run_pieces(pieces, heads, Written<Fold>{fold});
}

template <int most_operands>
ZP_KERNEL programme_fold_kernel(FoldArgument<most_operands> fold, DevicePieces pieces,
                                PackHeads heads) {
  ZP_SHARED_ARRAY(Floats<4>, stack, (fold_stack(most_operands) * block_threads));
  const ProgrammeFold<most_operands> programme{fold, stack + threadIdx.x};
  run_pieces(pieces, heads, Written<ProgrammeFold<most_operands>>{programme});
}

/// Number of these blocks that a multiprocessor holds, limited by their registers.
constexpr int tree_blocks(int n) { return n < 4 ? 6 : 4; }
constexpr int programme_blocks = 4;

struct Launch {
  const DevicePieces& pieces;

  template <LoadType type, int n>
  void operator()(const TreeFold<type, n>& fold, const PackHeads& heads) const {
    launch(tree_fold_kernel<TreeFold<type, n>>, walk_grid(tree_blocks(n)), block_threads, fold,
           pieces, heads);
  }
  template <int most_operands>
  void operator()(const FoldArgument<most_operands>& fold, const PackHeads& heads) const {
    launch(programme_fold_kernel<most_operands>, walk_grid(programme_blocks), block_threads, fold,
           pieces, heads);
  }
};

}  // namespace

void enqueue_fold(const DevicePieces& pieces, const host::FoldPlan& plan,
                  Span<const PlacedValues> operands, const PlacedValues& sum) {
  check_fold(plan, operands, sum);
  if (pieces.count > 0) visit_fold(plan, operands, sum, Launch{pieces});
}

}  // namespace zeroproof::cuda::device
