#pragma once
// The expected buffers of every rank of every world after a step, and the comparison with the
// actual ones.

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/float_formats.hpp"
#include "common/base/guarded_buffer.hpp"
#include "tests/support/rank_model.hpp"

namespace zeroproof::tests {

/// Bits of element i; all NaNs are one value (R9).
inline std::uint64_t element_bits(const TensorView& view, std::int64_t i) {
  return visit_format(view.dtype, [&](auto format) -> std::uint64_t {
    using Format = decltype(format);
    typename Format::Bits bits;
    std::memcpy(&bits, static_cast<const std::byte*>(view.data) + i * num_bytes(view.dtype),
                sizeof(bits));
    if constexpr (Format::is_float) return Format::is_nan(bits) ? Format::magnitude : bits;
    return bits;
  });
}

/// One scalar out of a view.
template <class T>
T read(const TensorView& view) {
  T value;
  std::memcpy(&value, view.data, sizeof(T));
  return value;
}

template <class T>
void write(const TensorView& view, const T& value) {
  std::memcpy(view.data, &value, sizeof(T));
}

/// Buffers of elements, in contrast to words that every rank has.
inline bool has_elements(BufferId id) {
  const bool of_blocks = (id >= BufferId::amax && id <= BufferId::param_scale_inv) ||
                         (id >= BufferId::column_amax && id <= BufferId::column_scale_inv);
  return id == BufferId::grad_sum || id == BufferId::unscaled_grad ||
         (id >= BufferId::grad && id != BufferId::tensor_steps && id != BufferId::trust_ratio &&
          !of_blocks && !is_state_scale(id));
}

inline bool is_nan(const TensorView& view, std::int64_t i) {
  return visit_format(view.dtype, [&](auto format) {
    if constexpr (decltype(format)::is_float)
      return element_bits(view, i) == decltype(format)::magnitude;
    return false;
  });
}

inline GuardedBuffer copy_of(const TensorView& view) {
  GuardedBuffer copy(view.numel, view.dtype);
  if (view.numel > 0)
    std::memcpy(copy.data(), view.data, static_cast<std::size_t>(view.num_bytes()));
  return copy;
}

/// The undistributed bits of one step, [padded_numel] or words, after each phase; step 0: after loading.
struct StepTruth {
  bool applied = true;
  std::map<BufferId, GuardedBuffer> buffers;
  std::vector<FlatRange> scale_blocks;  ///< with scales of state, in order; empty: all

  /// Copies views of all buffers; padding is undefined.
  void keep(BufferId id, const TensorView& view) { buffers[id] = copy_of(view); }
  void keep(const ExposedBuffer& buffer) {
    keep(buffer.id, buffer.view);
    if (is_state_scale(buffer.id)) scale_blocks = buffer.ranges;
  }
  TensorView at(BufferId id) const { return buffers.at(id).view(); }
};

using WorldTruth = std::vector<StepTruth>;  // [1 + steps]

/// Elements exposed by the ranks of one shard group; together they must have all.
class Coverage {
 public:
  void add(int group, const RankModel& model, const ExposedBuffer& buffer) {
    const std::lock_guard lock(mutex_);
    std::vector<bool>& seen = seen_[{group, buffer.id}];
    seen.resize(model.layout.padded_numel());
    for (const FlatRange& range : buffer.ranges)
      std::fill(seen.begin() + range.begin, seen.begin() + range.end, true);
    layouts_.emplace(group, model.layout);
  }

  /// "" or the elements that no rank of a group has. persistent: param_full may lack elements.
  std::string lacking(int groups, const StepTruth& truth, bool persistent) const {
    for (const auto& [id, values] : truth.buffers) {
      if (!has_elements(id)) continue;
      if (persistent && (id == BufferId::param_full || id == BufferId::param_columns)) continue;
      for (int group = 0; group < groups; ++group) {
        const auto seen = seen_.find({group, id});
        if (seen == seen_.end()) return std::string(name(id)) + " is exposed by no rank";
        for (const TensorSlot& slot : layouts_.at(group).tensors()) {
          for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
            if (!seen->second[i])
              return "no rank has element " + std::to_string(i) + " of " + std::string(name(id));
          }
        }
      }
    }
    return "";
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, BufferId>, std::vector<bool>> seen_;
  std::map<int, FlatLayout> layouts_;
};

/// Differences of one rank in one step, as text, since doctest asserts only run on the main thread. An observer of that step.
class Comparison final : public StepObserver {
 public:
  Comparison(const RankModel& model, const StepTruth& truth) : model_(model), truth_(truth) {}

  void observe(Phase phase, const ExposedBuffer& buffer) override {
    phases.insert(phase);
    look_at(buffer);
  }
  const StepTruth& truth() const { return truth_; }

  void look_at(const ExposedBuffer& buffer) {
    const auto found = truth_.buffers.find(buffer.id);
    expect(found != truth_.buffers.end(), buffer.id, " is exposed, but not expected");
    if (!problem.empty()) return;
    const TensorView& mine = buffer.view;
    const TensorView right = found->second.view();
    expect(mine.dtype == right.dtype, buffer.id, " has another dtype");
    if (has_elements(buffer.id)) {
      elements(buffer, right);
    } else if (is_state_scale(buffer.id)) {
      blocks(buffer, right);
    } else {
      expect(mine.numel == right.numel, buffer.id, " has another length");
      for (std::int64_t i = 0; i < mine.numel && problem.empty(); ++i)
        expect(element_bits(mine, i) == element_bits(right, i), buffer.id, " differs at word ", i);
    }
  }

  void expect(bool equal, BufferId id, const char* text, std::int64_t at = -1) {
    if (equal || !problem.empty()) return;
    problem = std::string(name(id)) + text + (at < 0 ? "" : std::to_string(at));
  }

  std::string problem;     ///< the first difference
  std::set<Phase> phases;  ///< that exposed a buffer

 private:
  /// Scales of state, by the block of the undistributed numbering (R25).
  void blocks(const ExposedBuffer& buffer, const TensorView& right) {
    std::int64_t here = 0;
    for (const FlatRange& range : buffer.ranges) {
      for (std::int64_t block = range.begin; block < range.end && problem.empty(); ++block, ++here)
        expect(
            here < buffer.view.numel && element_bits(buffer.view, here) == truth_bits(right, block),
            buffer.id, " differs at block ", block);
    }
    expect(here == buffer.view.numel, buffer.id, " does not have the blocks of its ranges");
  }

  /// Blocks of one rank: its scales have no entry for blocks of only padding.
  std::uint64_t truth_bits(const TensorView& right, std::int64_t block) const {
    const std::vector<FlatRange>& ranges = truth_.scale_blocks;
    if (ranges.empty()) return element_bits(right, block);
    std::int64_t before = 0;
    for (const FlatRange& range : ranges) {
      if (block < range.end) return element_bits(right, before + block - range.begin);
      before += range.numel();
    }
    return 0;
  }

  /// Tensors bit for bit, padding still NaN.
  void elements(const ExposedBuffer& buffer, const TensorView& right) {
    const TensorView& mine = buffer.view;
    std::int64_t numel = 0;
    for (const FlatRange& range : buffer.ranges) numel += range.numel();
    expect(mine.numel == numel, buffer.id, " does not have the elements of its ranges");
    if (!problem.empty()) return;
    std::int64_t padding = 0;
    const auto to_padding = [&](std::int64_t end) {
      for (; padding < end; ++padding)
        expect(is_nan(mine, padding), buffer.id, " has a value in padding at ", padding);
    };
    for (const Piece& piece : model_.layout.pieces(buffer.ranges)) {
      to_padding(piece.local_begin);
      for (std::int64_t e = 0; e < piece.numel; ++e) {
        const std::int64_t global = model_.global(piece, e);
        const bool equal = global < right.numel &&
                           element_bits(mine, piece.local_begin + e) == element_bits(right, global);
        expect(equal, buffer.id, " differs at undistributed element ", global);
      }
      padding = piece.local_begin + piece.numel;
    }
    to_padding(numel);
  }

  const RankModel& model_;
  const StepTruth& truth_;
};

}  // namespace zeroproof::tests
