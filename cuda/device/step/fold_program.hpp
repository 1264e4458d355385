#pragma once
// The additions of a fold in an order suited to kernels: several operands are loaded at once, and
// as few partial sums as possible are live. The order in time changes no bit; the pairing of
// operands would, and is kept.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/device/step/few_values.cuh"
#include "cuda/host/fold_plan.hpp"

namespace zeroproof::cuda::device {

/// Operations on the running value v. "The next": operands in the order of the program.
enum class FoldAction : std::uint8_t {
  tree,  ///< v = the balanced tree over the next 1, 2, 4 or 8
  add,   ///< v = v + each of the next 1, 2, 4 or 8 in turn
  push,  ///< pushes v
  pop    ///< v = v + the popped value
};

/// One byte. The left and right operand of an addition are not distinguished: swapping them changes
/// only the bits of a NaN, and all NaN bits are one value (R9).
struct FoldCode {
  std::uint8_t bits = 0;

  static FoldCode of(FoldAction action, int log2_count = 0, LoadType type = LoadType::fp32) {
    return {static_cast<std::uint8_t>(static_cast<int>(action) | log2_count << 2 |
                                      static_cast<int>(type) << 4)};
  }
  ZP_HOST_DEVICE FoldAction action() const { return static_cast<FoldAction>(bits & 3); }
  ZP_HOST_DEVICE int log2_count() const { return bits >> 2 & 3; }
  ZP_HOST_DEVICE LoadType type() const { return static_cast<LoadType>(bits >> 4 & 3); }
};

/// A value is pushed only if the other operand needs at least as many stack entries itself and is
/// not a single operand. d stack entries therefore need 2^(d+1) operands, in a plan of any shape:
/// 1024 operands, 9 entries.
ZP_HOST_DEVICE constexpr int fold_stack(int operands) {
  int values = 0;
  while (operands >> (values + 2) > 0) ++values;
  return values;
}
/// n operands: every tree takes at least two, every single one may need a code, and of t trees t -
/// 1 are pushed.
ZP_HOST_DEVICE constexpr int most_fold_codes(int operands) { return operands + operands / 2; }

class FoldProgram {
 public:
  /// operands: number of operands of the plan.
  FoldProgram(const host::FoldPlan& plan, Span<const PlacedValues> operands) : operands_(operands) {
    for (std::size_t i = 0; i < operands.size(); ++i) terms_.push_back({-1, -1, 0, 0});
    const host::Fold fold = plan.over({});
    std::vector<int> slots(host::most_fold_slots, -1);
    const auto term = [&](std::int64_t at) {
      return at >= 0 ? slots[at] : static_cast<int>(-1 - at);
    };
    for (std::int64_t k = 0; k < fold.num_additions; ++k) {
      const host::FoldAddition& a = fold.additions[k];
      const int sum = sum_of(term(a.left), term(a.right));
      slots[a.to] = sum;
    }
    emit(static_cast<int>(terms_.size()) - 1);
    ZP_CHECK(order_.size() == operands.size(), ErrorCode::internal,
             "a fold does not use every operand once", "its sum would be wrong",
             "report this with the command line");
  }

  const std::vector<FoldCode>& codes() const { return codes_; }
  /// Indices of operands, in the order of the codes.
  const std::vector<int>& order() const { return order_; }

 private:
  struct Term {
    int left, right;  // terms; -1 for an operand
    int level;        // of a balanced tree over 2^level operands that one code loads; else -1
    int stack;        // stack entries that it needs
  };

  const Term& at(int term) const { return terms_[term]; }
  bool is_operand(int term) const { return at(term).left < 0; }

  int sum_of(int left, int right) {
    const Term &l = at(left), &r = at(right);
    const int level = l.level == r.level && l.level >= 0 && l.level < 3 ? l.level + 1 : -1;
    const bool pushes = level < 0 && !is_operand(left) && !is_operand(right);
    const int stack = std::max(l.stack, r.stack) + (pushes && l.stack == r.stack ? 1 : 0);
    terms_.push_back({left, right, level, stack});
    return static_cast<int>(terms_.size()) - 1;
  }

  void emit(int term) {
    std::vector<int> single;  // operands that are added one by one, the last one first
    while (at(term).level < 0 && (is_operand(at(term).left) || is_operand(at(term).right))) {
      const bool right = is_operand(at(term).right);
      single.push_back(right ? at(term).right : at(term).left);
      term = right ? at(term).left : at(term).right;
    }
    if (at(term).level >= 0) {
      std::vector<int> leaves;
      collect(term, leaves);
      load(FoldAction::tree, at(term).level, leaves.data());
    } else {
      const bool left_first = at(at(term).left).stack >= at(at(term).right).stack;
      emit(left_first ? at(term).left : at(term).right);
      codes_.push_back(FoldCode::of(FoldAction::push));
      emit(left_first ? at(term).right : at(term).left);
      codes_.push_back(FoldCode::of(FoldAction::pop));
    }
    std::reverse(single.begin(), single.end());
    for (std::size_t i = 0; i < single.size();) {
      int log2_count = 3;
      while (i + (std::size_t{1} << log2_count) > single.size()) --log2_count;
      load(FoldAction::add, log2_count, single.data() + i);
      i += std::size_t{1} << log2_count;
    }
  }

  void collect(int term, std::vector<int>& leaves) const {
    if (is_operand(term)) return leaves.push_back(term);
    collect(at(term).left, leaves);
    collect(at(term).right, leaves);
  }

  void load(FoldAction action, int log2_count, const int* which) {
    const auto type = [&](int i) { return load_type(operands_[which[i]].dtype); };
    LoadType common = type(0);
    for (int i = 0; i < 1 << log2_count; ++i) {
      if (type(i) != common) common = LoadType::mixed;
      order_.push_back(which[i]);
    }
    codes_.push_back(FoldCode::of(action, log2_count, common));
  }

  Span<const PlacedValues> operands_;
  std::vector<Term> terms_;
  std::vector<FoldCode> codes_;
  std::vector<int> order_;
};

}  // namespace zeroproof::cuda::device
