#pragma once
// Steps of the production optimizer on many ranks of this process, collected into undistributed buffers.

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/philox.hpp"
#include "common/comm/threads.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "tests/cuda/numbered_leaves.hpp"

namespace zeroproof::tests {

/// A group of ranks that gives up quickly: a rank that failed must not keep the others waiting.
inline std::unique_ptr<ThreadWorld> quick_world(int size) {
  return std::make_unique<ThreadWorld>(size, std::chrono::milliseconds{20'000});
}

/// Bits of everything a run left behind, by global index; padding counts as 0.
struct Collected {
  std::map<BufferId, std::vector<std::uint64_t>> values;
  std::string problem;  ///< the first thing that was wrong, "" if nothing

  bool operator==(const Collected&) const = default;
};

inline std::uint64_t element_bits(const TensorView& view, std::int64_t i) {
  std::uint64_t bits = 0;
  const std::int64_t width = num_bytes(view.dtype);
  std::memcpy(&bits, static_cast<const std::byte*>(view.data) + i * width, static_cast<std::size_t>(width));
  return bits;
}

/// Takes a rank's buffers of one phase into the whole. Elements several ranks have must be the same bits.
class Collector {
 public:
  explicit Collector(const FlatLayout& layout) : layout_(layout) {}

  void take(DistributedOptimizer& optimizer, const std::vector<Phase>& phases) {
    const std::lock_guard lock(mutex_);
    for (const Phase phase : phases) {
      for (const ExposedBuffer& buffer : optimizer.exposed(phase)) take(buffer);
    }
    if (!optimizer.damaged_guard().empty()) complain("damaged guard of " + optimizer.damaged_guard());
  }

  /// Every element of every tensor must have been seen, except of param_full in stage 3.
  Collected result(bool param_full_may_lack = false) {
    for (const auto& [id, seen] : seen_) {
      if (id == BufferId::param_full && param_full_may_lack) {
        all_.values.erase(id);
        continue;
      }
      for (const TensorSlot& slot : layout_.tensors()) {
        for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
          if (!seen[static_cast<std::size_t>(i)])
            complain(std::string(name(id)) + " lacks element " + std::to_string(i));
        }
      }
    }
    return all_;
  }

  void complain(const std::string& problem) {
    if (all_.problem.empty()) all_.problem = problem;
  }

 private:
  void take(const ExposedBuffer& buffer) {
    std::vector<std::uint64_t>& values = all_.values[buffer.id];
    if (buffer.ranges.empty() && buffer.view.numel < layout_.padded_numel()) {
      std::vector<std::uint64_t> scalars;
      for (std::int64_t i = 0; i < buffer.view.numel; ++i) scalars.push_back(element_bits(buffer.view, i));
      const bool sharded = buffer.id >= BufferId::exp_avg || buffer.id == BufferId::grad_sum ||
                           buffer.id == BufferId::unscaled_grad || buffer.id == BufferId::grad;
      if (sharded && scalars.empty()) return;  // a rank that owns nothing
      if (!values.empty() && values != scalars)
        complain(std::string(name(buffer.id)) + " differs between ranks");
      values = scalars;
      return;
    }
    values.resize(static_cast<std::size_t>(layout_.padded_numel()));
    std::vector<bool>& seen = seen_[buffer.id];
    seen.resize(values.size());
    for (const Piece& piece : layout_.pieces(buffer.ranges)) {
      for (std::int64_t k = 0; k < piece.numel; ++k) {
        const auto at = static_cast<std::size_t>(piece.global_begin + k);
        const std::uint64_t bits = element_bits(buffer.view, piece.local_begin + k);
        if (seen[at] && values[at] != bits) {
          complain(std::string(name(buffer.id)) + " differs between ranks at " + std::to_string(at));
        }
        values[at] = bits;
        seen[at] = true;
      }
    }
  }

  const FlatLayout& layout_;
  std::mutex mutex_;
  Collected all_;
  std::map<BufferId, std::vector<bool>> seen_;
};

/// A generic first state.
struct FirstState {
  explicit FirstState(const FlatLayout& layout,
                      const std::function<std::int64_t(std::int64_t)>& global = {}) {
    for (std::int64_t i = 0; i < layout.padded_numel(); ++i) {
      const auto index = static_cast<std::uint64_t>(global && layout.tensor_at(i) >= 0 ? global(i) : i);
      master.push_back(Philox(11).bell(index));
      exp_avg.push_back(Philox(12).bell(index) * 0.1F);
      exp_avg_sq.push_back(Philox(13).uniform(index) * 0.01F);
    }
    for (std::size_t t = 0; t < layout.tensors().size(); ++t) tensor_steps.push_back(t % 3);
  }

  FullState state() const {
    return {master, exp_avg, exp_avg_sq, {}, {}, tensor_steps, 2, {log2_scale, 2, 1}};
  }

  std::vector<float> master, exp_avg, exp_avg_sq;
  std::vector<std::uint64_t> tensor_steps;
  std::int32_t log2_scale = 0;
};

/// Runs `steps` steps; G is compared after the first one, everything else after the last. Also checks that memory is back
/// at its resting value after every step.
inline void run_steps(DistributedOptimizer& optimizer, LeafSource& leaves, const FullState& state, int steps,
                      Collector& sums, Collector& rest) {
  optimizer.load_state(state);
  const BytesByClass resting = optimizer.memory().now;
  for (int step = 0; step < steps; ++step) {
    optimizer.run_phase(Phase::prepare, leaves);
    optimizer.run_phase(Phase::reduce, leaves);
    if (step == 0) sums.take(optimizer, {Phase::reduce});
    for (const Phase phase : all_phases) {
      if (phase < Phase::unscale || (skipped_on_overflow(phase) && optimizer.skipped())) continue;
      optimizer.run_phase(phase, leaves);
    }
    if (optimizer.memory().now != resting) rest.complain("memory is not back at its resting value");
  }
  std::vector<Phase> phases = {Phase::prepare, Phase::unscale, Phase::update, Phase::cast, Phase::gather};
  if (!optimizer.skipped()) phases.insert(phases.end(), {Phase::norm, Phase::clip});
  rest.take(optimizer, phases);
}

struct StepResult {
  Collected sums, rest;
  bool operator==(const StepResult&) const = default;
};

/// The same run on the ranks of one group. adjust() may change the setup of a rank before it is used.
struct StepRun {
  const FlatLayout& layout;
  OptimizerSetup setup;
  cuda::StepForm form = cuda::StepForm::phases;
  int steps = 2;
  std::function<void(NumberedLeaves&)> leaves = {};

  StepResult on(int world_size, const ShardMap& shards) const {
    Collector sums(layout);
    Collector rest(layout);
    const FirstState first(layout);
    const auto world = quick_world(world_size);
    run_ranks(*world, [&](Communicator& comm) {
      OptimizerSetup mine = setup;
      mine.layout = &layout;
      mine.shards = &shards;
      mine.comm = &comm;
      const auto optimizer = cuda::make_distributed_optimizer(mine, form);
      NumberedLeaves source(layout, mine.leaf_dtype);
      if (leaves) leaves(source);
      run_steps(*optimizer, source, first.state(), steps, sums, rest);
    });
    return {sums.result(), rest.result(setup.stage == 3)};
  }

  StepResult alone() const {
    StepRun one = *this;
    one.setup.stage = 0;
    one.setup.order = MicroBatchOrder::contiguous;
    StepResult result = one.on(1, ShardMap(layout.padded_numel(), 1, layout_alignment));
    if (setup.stage == 3) result.rest.values.erase(BufferId::param_full);
    return result;
  }
};

/// Odd sizes, an empty tensor, tensors over several chunks and buckets, scalars.
inline const FlatLayout& odd_layout() {
  static const FlatLayout layout({{"a", {7, 11}},
                                  {"b", {3}},
                                  {"empty", {0}},
                                  {"w", {50, 61}},
                                  {"v", {1025}},
                                  {"scalar", {}},
                                  {"u", {2, 1024}}});
  return layout;
}

/// Cut anywhere, several ranges of a bucket and rank; some ranks of many own nothing, padding often has no owner.
inline ShardMap ragged_map(const FlatLayout& layout, int world_size) {
  std::vector<Bucket> buckets;
  const std::int64_t cuts[] = {0, 1500, 1501, 4099, layout.padded_numel()};
  std::int64_t run = 0;
  for (std::size_t b = 0; b + 1 < std::size(cuts); ++b) {
    Bucket bucket{{cuts[b], cuts[b + 1]}, {}};
    bucket.owned.resize(static_cast<std::size_t>(world_size));
    for (std::int64_t begin = cuts[b]; begin < cuts[b + 1]; ++run) {
      const std::int64_t end = std::min(begin + run * 29 % 613 + 1, cuts[b + 1]);
      const auto rank = static_cast<std::size_t>((run * run + 1) % world_size);
      const bool padding = layout.pieces({{begin, end}}).empty();
      if (!padding || run % 3 != 0) bucket.owned[rank].push_back({begin, end});
      begin = end;
    }
    buckets.push_back(std::move(bucket));
  }
  return ShardMap(layout.padded_numel(), world_size, std::move(buckets));
}

}  // namespace zeroproof::tests
