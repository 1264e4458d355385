#pragma once
// The values of a fold, element by element, for kernels that process them further. A fold has
//   packs_at_once    preferred number of packs of four to process at once: 1, 2 or 4
//   sum              target of the values; it may be an operand: a thread reads before it writes
//   run<count, width, apart>(place, stride, put)
//                    calls put(place, values) count times, at places `stride` elements apart, for
//                    `width` values each (one or four), `apart` elements from each other; put
//                    writes them

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/device/step/few_values.cuh"
#include "cuda/device/step/fold_nodes.hpp"
#include "cuda/device/step/fold_program.hpp"

namespace zeroproof::cuda::device {

/// A balanced tree over n operands of one format, without a program.
template <LoadType type, int n>
struct TreeFold {
  static constexpr int packs_at_once = n < 4 ? 4 / n : 1;
  PlacedAddress operands[n];
  PlacedAddress sum;

  template <int count, int width, int apart, class Put>
  ZP_DEVICE void run(const Place& place, int stride, const Put& put) const {
    Words<width> words[count][n];
    ZP_UNROLL
    for (int c = 0; c < count; ++c) {
      ZP_UNROLL
      for (int i = 0; i < n; ++i)
        words[c][i] = load_words<type, width, apart>(operands[i], place.after(c * stride));
    }
    ZP_UNROLL
    for (int c = 0; c < count; ++c) {
      Floats<width> values[n];
      ZP_UNROLL
      for (int i = 0; i < n; ++i)
        values[i] = widened<type, width, apart>(words[c][i], operands[i].dtype);
      put(place.after(c * stride), tree_of<n>(values));
    }
  }
};

/// Any fold of up to a given number of operands, as a kernel's argument.
template <int most_operands>
struct FoldArgument {
  PlacedAddress operands[most_operands];
  PlacedAddress sum;
  int num_codes;
  FoldCode codes[most_fold_codes(most_operands)];
};
inline constexpr int small_fold = 8, middle_fold = 128, large_fold = 1024;
// An argument above 4 KB needs CUDA 12.1 and compute capability 7.0; the limit there is 32764
// bytes.
inline constexpr std::int64_t other_arguments = sizeof(DevicePieces) + sizeof(PackHeads) + 64;
static_assert(sizeof(FoldArgument<middle_fold>) + other_arguments <= 4096);
static_assert(sizeof(FoldArgument<large_fold>) + other_arguments <= 32764);

/// Runs the program for every element, or for four at once.
template <int most_operands>
struct ProgrammeFold {
  static constexpr int packs_at_once = 1;
  const FoldArgument<most_operands>& fold;
  Floats<4>* stack;  // of this thread: one value in every block_threads
  const PlacedAddress& sum = fold.sum;

  template <int count, int width, int apart, class Put>
  ZP_DEVICE void run(const Place& place, int /*stride*/, const Put& put) const {
    static_assert(count == 1);
    put(place, value<width, apart>(place));
  }

 private:
  template <int width, int apart>
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
        v = loaded<width, apart>(code, next, place, v);
        next += 1 << code.log2_count();
      }
    }
    return v;
  }

  template <int width, int apart>
  ZP_DEVICE static Floats<width> loaded(FoldCode code, const PlacedAddress* next,
                                        const Place& place, const Floats<width>& v) {
    if constexpr (width > 1) {  // single elements are rare and need no loops of their own
      if (code.type() == LoadType::fp32)
        return counted<LoadType::fp32, width, apart>(code, next, place, v);
      if (code.type() == LoadType::bf16)
        return counted<LoadType::bf16, width, apart>(code, next, place, v);
      if (code.type() == LoadType::fp16)
        return counted<LoadType::fp16, width, apart>(code, next, place, v);
    }
    return counted<LoadType::mixed, width, apart>(code, next, place, v);
  }

  template <LoadType type, int width, int apart>
  ZP_DEVICE static Floats<width> counted(FoldCode code, const PlacedAddress* next,
                                         const Place& place, const Floats<width>& v) {
    if (code.log2_count() == 3) return folded<type, 8, width, apart>(code.action(), next, place, v);
    if (code.log2_count() == 2) return folded<type, 4, width, apart>(code.action(), next, place, v);
    if (code.log2_count() == 1) return folded<type, 2, width, apart>(code.action(), next, place, v);
    return folded<type, 1, width, apart>(code.action(), next, place, v);
  }

  template <LoadType type, int n, int width, int apart>
  ZP_DEVICE static Floats<width> folded(FoldAction action, const PlacedAddress* next,
                                        const Place& place, Floats<width> v) {
    Words<width> words[n];
    ZP_UNROLL
    for (int i = 0; i < n; ++i) words[i] = load_words<type, width, apart>(next[i], place);
    Floats<width> values[n];
    ZP_UNROLL
    for (int i = 0; i < n; ++i) values[i] = widened<type, width, apart>(words[i], next[i].dtype);
    if (action == FoldAction::tree) return tree_of<n>(values);
    ZP_UNROLL
    for (int i = 0; i < n; ++i) v = added(v, values[i]);
    return v;
  }
};

/// Errors: invalid_argument if the operands are not those of the plan, too many, or of other
/// formats.
inline void check_fold(const host::FoldPlan& plan, Span<const PlacedValues> operands,
                       const PlacedValues& sum) {
  ZP_CHECK(operands.size() == plan.num_nodes(), ErrorCode::invalid_argument,
           std::to_string(operands.size()) + " operands for a fold of " +
               std::to_string(plan.num_nodes()),
           "each addition has its operands", "pass one operand per node of the plan");
  ZP_CHECK(operands.size() <= large_fold, ErrorCode::invalid_argument,
           "a fold has " + std::to_string(operands.size()) + " operands",
           "a kernel's argument holds " + std::to_string(large_fold),
           "combine nodes of fewer ranks first");
  for (const PlacedValues& operand : operands) {
    ZP_CHECK(is_param_format(operand.dtype), ErrorCode::invalid_argument,
             "an operand of a fold is " + std::string(name(operand.dtype)),
             "gradients are fp32, bf16 or fp16", "widen it first");
  }
  ZP_CHECK(sum.dtype == DType::fp32, ErrorCode::invalid_argument,
           "a fold writes " + std::string(name(sum.dtype)),
           "nodes of the gradient tree are fp32 (R11)", "pass an fp32 buffer");
}

/// Calls f(fold, heads) with a TreeFold if a single code covers the plan, else with a FoldArgument.
/// The operands were already checked.
template <class F>
void visit_fold(const host::FoldPlan& plan, Span<const PlacedValues> operands,
                const PlacedValues& sum, const F& f) {
  const FoldProgram program(plan, operands);
  PackHeads heads;
  const PlacedAddress sum_at = placed_address(sum, num_bytes(sum.dtype), heads);
  std::vector<PlacedAddress> at;
  for (const int i : program.order()) {
    const PlacedValues& operand = operands[i];
    at.push_back(placed_address(operand, num_bytes(operand.dtype), heads));
  }
  const auto tree = [&]<LoadType type, int n>() {
    TreeFold<type, n> fold;
    std::copy(at.begin(), at.end(), fold.operands);
    fold.sum = sum_at;
    f(fold, heads);
  };
  const auto tree_of_type = [&]<LoadType type>(int log2_count) {
    if (log2_count == 0) return tree.template operator()<type, 1>();
    if (log2_count == 1) return tree.template operator()<type, 2>();
    if (log2_count == 2) return tree.template operator()<type, 4>();
    tree.template operator()<type, 8>();
  };
  const auto programme = [&]<int most_operands>() {
    FoldArgument<most_operands> fold{};
    std::copy(at.begin(), at.end(), fold.operands);
    fold.sum = sum_at;
    fold.num_codes = static_cast<int>(program.codes().size());
    std::copy(program.codes().begin(), program.codes().end(), fold.codes);
    f(fold, heads);
  };
  const FoldCode first = program.codes().front();
  if (program.codes().size() == 1 && first.type() != LoadType::mixed) {
    const int log2_count = first.log2_count();
    if (first.type() == LoadType::fp32)
      return tree_of_type.template operator()<LoadType::fp32>(log2_count);
    if (first.type() == LoadType::bf16)
      return tree_of_type.template operator()<LoadType::bf16>(log2_count);
    return tree_of_type.template operator()<LoadType::fp16>(log2_count);
  }
  if (at.size() <= small_fold) return programme.template operator()<small_fold>();
  if (at.size() <= middle_fold) return programme.template operator()<middle_fold>();
  programme.template operator()<large_fold>();
}

}  // namespace zeroproof::cuda::device
