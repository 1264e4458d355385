#include <string>

#include "common/base/error.hpp"
#include "cuda/device/step/few_values.cuh"
#include "cuda/device/step/fold_nodes.hpp"
#include "cuda/device/step/fold_program.hpp"

namespace zeroproof::cuda::device {

namespace {

/// A balanced tree over n operands of one format, without a programme.
template <LoadType type, int n>
struct TreeFold {
  static constexpr int packs_at_once = n < 4 ? 4 / n : 1;
  PlacedAddress operands[n];
  PlacedAddress sum;  // may be one of them: a thread reads its elements before it writes them

  ZP_DEVICE void one(const Place& place) const { run<1, 1>(place); }

  template <int count>
  ZP_DEVICE void packs(const Place& place) const {
    run<count, walk_pack_numel>(place);
  }

 private:
  template <int count, int width>
  ZP_DEVICE void run(const Place& place) const {
    Words<width> words[count][n];
    ZP_UNROLL
    for (int c = 0; c < count; ++c) {
      ZP_UNROLL
      for (int i = 0; i < n; ++i)
        words[c][i] = load_words<type, width>(operands[i], place.after(c * pack_stride));
    }
    ZP_UNROLL
    for (int c = 0; c < count; ++c) {
      Floats<width> values[n];
      ZP_UNROLL
      for (int i = 0; i < n; ++i) values[i] = widened<type>(words[c][i], operands[i].dtype);
      store(sum, place.after(c * pack_stride), tree_of<n>(values));
    }
  }
};

template <class Operation>
ZP_KERNEL tree_fold_kernel(Operation operation, DevicePieces pieces, PackHeads heads) {
  run_pieces(pieces, heads, operation);
}

/// Any fold of so many operands, as a kernel's argument.
template <int most_operands>
struct FoldArgument {
  PlacedAddress operands[most_operands];
  PlacedAddress sum;
  int num_codes;
  FoldCode codes[most_fold_codes(most_operands)];
};
constexpr int small_fold = 8, middle_fold = 128, large_fold = 1024;
// Above 4 KB an argument needs CUDA 12.1 and compute capability 7.0; 32764 bytes are the most there.
static_assert(sizeof(FoldArgument<middle_fold>) + sizeof(DevicePieces) + sizeof(PackHeads) <= 4096);
static_assert(sizeof(FoldArgument<large_fold>) + sizeof(DevicePieces) + sizeof(PackHeads) <= 32764);

/// Runs the programme for every element, or for four at once.
template <int most_operands>
struct ProgrammeFold {
  static constexpr int packs_at_once = 1;
  const FoldArgument<most_operands>& fold;
  Floats<4>* stack;  // of this thread: one value in every block_threads

  ZP_DEVICE void one(const Place& place) const { store(fold.sum, place, value<1>(place)); }

  template <int>
  ZP_DEVICE void packs(const Place& place) const {
    store(fold.sum, place, value<4>(place));
  }

 private:
  template <int width>
  ZP_DEVICE Floats<width> value(const Place& place) const {
    Floats<width> v{};
    const PlacedAddress* next = fold.operands;
    Floats<4>* top = stack;
    for (int i = 0; i < fold.num_codes; ++i) {
      const FoldCode code = fold.codes[i];
      if (code.action() == FoldAction::push) {
        if constexpr (width == 4) {
          *top = v;
        } else {
          top->v[0] = v.v[0];
        }
        top += block_threads;
      } else if (code.action() == FoldAction::pop) {
        top -= block_threads;
        if constexpr (width == 4) {
          const Floats<4> below = *top;
          v = added(below, v);
        } else {
          v.v[0] = top->v[0] + v.v[0];
        }
      } else {
        v = loaded(code, next, place, v);
        next += 1 << code.log2_count();
      }
    }
    return v;
  }

  template <int width>
  ZP_DEVICE static Floats<width> loaded(FoldCode code, const PlacedAddress* next, const Place& place,
                                        const Floats<width>& v) {
    if constexpr (width > 1) {  // single elements are few, and need no loops of their own
      if (code.type() == LoadType::fp32) return counted<LoadType::fp32>(code, next, place, v);
      if (code.type() == LoadType::bf16) return counted<LoadType::bf16>(code, next, place, v);
      if (code.type() == LoadType::fp16) return counted<LoadType::fp16>(code, next, place, v);
    }
    return counted<LoadType::mixed>(code, next, place, v);
  }

  template <LoadType type, int width>
  ZP_DEVICE static Floats<width> counted(FoldCode code, const PlacedAddress* next, const Place& place,
                                         const Floats<width>& v) {
    if (code.log2_count() == 3) return folded<type, 8>(code.action(), next, place, v);
    if (code.log2_count() == 2) return folded<type, 4>(code.action(), next, place, v);
    if (code.log2_count() == 1) return folded<type, 2>(code.action(), next, place, v);
    return folded<type, 1>(code.action(), next, place, v);
  }

  template <LoadType type, int n, int width>
  ZP_DEVICE static Floats<width> folded(FoldAction action, const PlacedAddress* next, const Place& place,
                                        Floats<width> v) {
    Words<width> words[n];
    ZP_UNROLL
    for (int i = 0; i < n; ++i) words[i] = load_words<type, width>(next[i], place);
    Floats<width> values[n];
    ZP_UNROLL
    for (int i = 0; i < n; ++i) values[i] = widened<type>(words[i], next[i].dtype);
    if (action == FoldAction::tree) return tree_of<n>(values);
    ZP_UNROLL
    for (int i = 0; i < n; ++i) v = added(v, values[i]);
    return v;
  }
};

template <int most_operands>
ZP_KERNEL programme_fold_kernel(FoldArgument<most_operands> fold, DevicePieces pieces, PackHeads heads) {
  constexpr int stack_values = fold_stack(most_operands);
  ZP_SHARED_ARRAY(Floats<4>, stack, (stack_values * block_threads));
  run_pieces(pieces, heads, ProgrammeFold<most_operands>{fold, stack + threadIdx.x});
}

/// How many of these blocks a multiprocessor holds, going by their registers.
constexpr int tree_blocks(int n) { return n < 4 ? 6 : 4; }
constexpr int programme_blocks = 4;

template <LoadType type, int n>
void enqueue_tree(const DevicePieces& pieces, const PlacedAddress* operands, const PlacedAddress& sum,
                  const PackHeads& heads) {
  TreeFold<type, n> operation;
  for (int i = 0; i < n; ++i) operation.operands[i] = operands[i];
  operation.sum = sum;
  launch(tree_fold_kernel<TreeFold<type, n>>, walk_grid(tree_blocks(n)), block_threads, operation, pieces,
         heads);
}

template <LoadType type>
void enqueue_tree(int log2_count, const DevicePieces& pieces, const PlacedAddress* operands,
                  const PlacedAddress& sum, const PackHeads& heads) {
  if (log2_count == 0) return enqueue_tree<type, 1>(pieces, operands, sum, heads);
  if (log2_count == 1) return enqueue_tree<type, 2>(pieces, operands, sum, heads);
  if (log2_count == 2) return enqueue_tree<type, 4>(pieces, operands, sum, heads);
  enqueue_tree<type, 8>(pieces, operands, sum, heads);
}

template <int most_operands>
void enqueue_programme(const DevicePieces& pieces, const FoldProgram& program,
                       const std::vector<PlacedAddress>& operands, const PlacedAddress& sum,
                       const PackHeads& heads) {
  FoldArgument<most_operands> fold{};
  std::copy(operands.begin(), operands.end(), fold.operands);
  fold.sum = sum;
  fold.num_codes = static_cast<int>(program.codes().size());
  std::copy(program.codes().begin(), program.codes().end(), fold.codes);
  launch(programme_fold_kernel<most_operands>, walk_grid(programme_blocks), block_threads, fold, pieces,
         heads);
}

void check(const host::FoldPlan& plan, Span<const PlacedValues> operands, const PlacedValues& sum) {
  ZP_CHECK(operands.size() == plan.num_nodes(), ErrorCode::invalid_argument,
           std::to_string(operands.size()) + " operands were given to a fold of " +
               std::to_string(plan.num_nodes()),
           "its additions name each of them", "pass one for every node of the plan");
  ZP_CHECK(operands.size() <= large_fold, ErrorCode::invalid_argument,
           "a fold has " + std::to_string(operands.size()) + " operands",
           "a kernel's argument holds " + std::to_string(large_fold), "combine nodes of fewer ranks first");
  for (const PlacedValues& operand : operands) {
    ZP_CHECK(is_param_format(operand.dtype), ErrorCode::invalid_argument,
             "an operand of a fold is " + std::string(name(operand.dtype)),
             "gradients are kept in fp32, bf16 and fp16", "widen it first");
  }
  ZP_CHECK(sum.dtype == DType::fp32, ErrorCode::invalid_argument,
           "a fold writes " + std::string(name(sum.dtype)), "nodes of the gradient tree are fp32 (R11)",
           "pass an fp32 buffer");
}

}  // namespace

void enqueue_fold(const DevicePieces& pieces, const host::FoldPlan& plan, Span<const PlacedValues> operands,
                  const PlacedValues& sum) {
  check(plan, operands, sum);
  if (pieces.count <= 0) return;
  const FoldProgram program(plan, operands);
  PackHeads heads;
  const PlacedAddress sum_at = placed_address(sum, num_bytes(sum.dtype), heads);
  std::vector<PlacedAddress> at;
  for (const int i : program.order()) {
    const PlacedValues& operand = operands[static_cast<std::size_t>(i)];
    at.push_back(placed_address(operand, num_bytes(operand.dtype), heads));
  }
  const FoldCode first = program.codes().front();
  if (program.codes().size() == 1 && first.type() == LoadType::fp32) {
    return enqueue_tree<LoadType::fp32>(first.log2_count(), pieces, at.data(), sum_at, heads);
  }
  if (program.codes().size() == 1 && first.type() == LoadType::bf16) {
    return enqueue_tree<LoadType::bf16>(first.log2_count(), pieces, at.data(), sum_at, heads);
  }
  if (program.codes().size() == 1 && first.type() == LoadType::fp16) {
    return enqueue_tree<LoadType::fp16>(first.log2_count(), pieces, at.data(), sum_at, heads);
  }
  if (at.size() <= small_fold) return enqueue_programme<small_fold>(pieces, program, at, sum_at, heads);
  if (at.size() <= middle_fold) return enqueue_programme<middle_fold>(pieces, program, at, sum_at, heads);
  enqueue_programme<large_fold>(pieces, program, at, sum_at, heads);
}

}  // namespace zeroproof::cuda::device
