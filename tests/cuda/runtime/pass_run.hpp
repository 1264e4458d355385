#pragma once
// Runs a layer-by-layer pass on thread ranks and holds every leaf that arrives against a whole pass of the
// model.

#include <doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/comm/threads.hpp"
#include "cuda/layered_pass.hpp"
#include "tests/cuda/runtime/layered_fixtures.hpp"

namespace zeroproof::tests {

struct PassCase {
  int world = 1;  ///< ranks of an instance
  int instances = 1;
  int cp = 1;
  int stage = 3;
  bool overlap = true;
  std::int64_t micro_batches = 3;
  std::int64_t steps = 2;  ///< parameters change in between
  MicroBatchOrder order = MicroBatchOrder::by_stage;
  std::int64_t bucket_numel = 3072;
  std::int64_t persistent_numel = 0;
  DType param_dtype = DType::bf16;
  DType leaf_dtype = DType::fp32;
  std::vector<std::size_t> units = {0, 3, 4, 6, 8};  ///< first tensors
  std::vector<int> visits = {0, 1, 2, 3, 4, 0};      ///< unit 0 is tied
  cuda::ExecutorHooks hooks = {};
  std::function<std::unique_ptr<cuda::PlanRunner>()> runner = {};  ///< another one than the default
};

/// What one rank saw.
struct PassResult {
  std::int64_t wrong = 0;  ///< elements that differ, over all micro-steps and all ranks of the instance
  MemoryUse memory;
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  int num_gathers = 0;
};

/// The micro-batches of a data rank, from R11.
inline std::vector<std::int64_t> micro_batches_of(const PassCase& run, std::int64_t data_rank) {
  const std::int64_t groups = run.world * run.instances / run.cp, group = data_rank / run.cp;
  std::vector<std::int64_t> own;
  for (std::int64_t j = 0; j < run.micro_batches; ++j) {
    const bool contiguous =
        j >= run.micro_batches * group / groups && j < run.micro_batches * (group + 1) / groups;
    if (run.order == MicroBatchOrder::contiguous ? contiguous : j % groups == group) own.push_back(j);
  }
  return own;
}

inline std::int64_t wrong_elements(const PassCase& run, const FlatLayout& layout, const FakeSink& sink,
                                   std::int64_t version, std::int64_t instance) {
  const GuardedBuffer params = whole_params(layout, run.param_dtype, version);
  std::int64_t wrong = 0, steps = 0;
  for (std::int64_t r = 0; r < run.world; ++r) {
    const std::int64_t data_rank = instance * run.world + r;
    const std::vector<std::int64_t> own = micro_batches_of(run, data_rank);
    SyntheticModel model(layout, units_from(layout, run.units), run.visits,
                         static_cast<int>(data_rank % run.cp));
    for (const auto& [step, leaves] : sink.leaves) {
      const auto& leaf = leaves[static_cast<std::size_t>(r)];
      if (step < static_cast<std::int64_t>(own.size())) {
        const GuardedBuffer expected =
            expected_leaf(layout, model, params.view(), run.leaf_dtype, own[static_cast<std::size_t>(step)]);
        wrong += differing(layout, leaf, expected);
      } else {
        wrong += leaf.empty() ? 0 : layout.numel();
      }
    }
    steps = std::max(steps, static_cast<std::int64_t>(own.size()));
  }
  return static_cast<std::int64_t>(sink.leaves.size()) < steps ? layout.numel() : wrong;
}

/// comm: the ranks of an instance; replicas: null with one instance.
inline PassResult run_rank(const PassCase& run, Communicator& comm, Communicator* replicas) {
  const FlatLayout layout = odd_layout();
  const ShardMap shards(layout.padded_numel(), run.world, run.bucket_numel);
  const std::int64_t instance = replicas == nullptr ? 0 : replicas->rank();
  const std::int64_t data_rank = instance * run.world + comm.rank();
  OptimizerSetup setup;
  setup.layout = &layout;
  setup.shards = &shards;
  setup.comm = &comm;
  setup.replicas = replicas;
  setup.cp = run.cp;
  setup.stage = run.stage;
  setup.order = run.order;
  setup.persistent_numel = run.persistent_numel;
  setup.overlap = run.overlap;
  setup.param_dtype = run.param_dtype;
  setup.leaf_dtype = run.leaf_dtype;
  setup.micro_batches = run.micro_batches;

  SyntheticModel model(layout, units_from(layout, run.units), run.visits,
                       static_cast<int>(data_rank % run.cp));
  FakeGatherer gatherer(comm, layout);
  FakeSink sink(comm, shards, run.leaf_dtype);
  cuda::MemoryLedger ledger;
  GuardedBuffer params;
  if (run.stage == 2) params = GuardedBuffer(layout.padded_numel(), run.param_dtype);
  const std::unique_ptr<cuda::PlanRunner> runner = run.runner ? run.runner() : nullptr;
  cuda::LayeredPass pass(setup, model, run.stage == 3 ? &gatherer : nullptr, sink, ledger, params.view(),
                         run.hooks, runner.get());
  PassResult result;
  for (std::int64_t step = 0; step < run.steps; ++step) {
    ++gatherer.casts;
    if (run.stage == 2) {
      const GuardedBuffer now = whole_params(layout, run.param_dtype, gatherer.casts);
      std::memcpy(params.data(), now.data(), static_cast<std::size_t>(now.view().num_bytes()));
    }
    sink.leaves.clear();
    sink.order.clear();
    gatherer.num_gathers = 0;
    pass.run();
    result.wrong += wrong_elements(run, layout, sink, gatherer.casts, instance);
  }
  result.memory = ledger.use();
  result.order = sink.order;
  result.num_gathers = gatherer.num_gathers;
  return result;
}

/// [data ranks]
inline std::vector<PassResult> run_pass(const PassCase& run) {
  const auto ranks = static_cast<std::size_t>(run.world * run.instances);
  std::vector<PassResult> results(ranks);
  ThreadWorld world(static_cast<int>(ranks));
  std::vector<ThreadWorld> instances, owners;
  for (int i = 0; i < run.instances; ++i) instances.emplace_back(run.world);
  for (int r = 0; r < run.world; ++r) owners.emplace_back(run.instances);
  run_ranks(world, [&](Communicator& comm) {
    const int rank = comm.rank() % run.world, instance = comm.rank() / run.world;
    PassResult& result = results[static_cast<std::size_t>(comm.rank())];
    if (run.instances == 1) {
      result = run_rank(run, comm, nullptr);
    } else {
      const auto inside = instances[static_cast<std::size_t>(instance)].communicator(rank);
      const auto across = owners[static_cast<std::size_t>(rank)].communicator(instance);
      result = run_rank(run, *inside, across.get());
    }
  });
  return results;
}

/// Peaks of parameters and gradients as cuda/layered_pass.hpp describes them, walked in the order of that
/// text.
struct Walk {
  std::int64_t param_peak = 0, grad_peak = 0;
};

class WalkOfPass {
 public:
  explicit WalkOfPass(const PassCase& run)
      : run_(run),
        layout_(odd_layout()),
        units_(units_from(layout_, run.units)),
        buckets_(ShardMap(layout_.padded_numel(), run.world, run.bucket_numel).buckets()),
        s_(run.visits) {
    s_.insert(s_.end(), run.visits.rbegin(), run.visits.rend());
    held_.assign(buckets_.size(), false);
  }

  Walk walk() {
    const std::size_t n = s_.size();
    for (std::size_t u = 0; u < units_.size(); ++u) params_ += is_persistent(u) ? whole(u) : 0;
    for (std::size_t i = 0; i < n; ++i) {
      const auto u = static_cast<std::size_t>(s_[i]);
      if (i == 0 || s_[i - 1] != s_[i]) {
        if (!run_.overlap || i == 0) add_params(gathered(u));
        std::size_t v = i;
        while (v < n && s_[v] == s_[i]) ++v;
        if (run_.overlap && v < n) add_params(gathered(static_cast<std::size_t>(s_[v])));
      }
      if (run_.overlap && i > 0 && is_last(i - 1)) seal(i - 1);
      if (i >= n / 2) {
        if (run_.overlap) free_due(i);
        if (std::find(s_.begin() + static_cast<std::ptrdiff_t>(n / 2), s_.end(), s_[i]) ==
            s_.begin() + static_cast<std::ptrdiff_t>(i)) {
          add_grads(leaf(units_[u]));
        }
        if (!run_.overlap && is_last(i)) seal(i);
      }
      if (i + 1 == n || s_[i + 1] != s_[i]) params_ -= gathered(u);
    }
    if (run_.overlap && n > 0) seal(n - 1);
    free_due(n + 2);
    if (grads_ != 0) peak_.grad_peak = -1;  // the walk is not closed
    return peak_;
  }

 private:
  bool is_persistent(std::size_t u) const {
    if (run_.stage != 3 || units_[u].numel() == 0) return false;
    for (const TensorSlot& tensor : layout_.tensors()) {
      const bool inside = tensor.begin >= units_[u].begin && tensor.begin < units_[u].end;
      if (inside && tensor.numel > run_.persistent_numel) return false;
    }
    return true;
  }
  std::int64_t whole(std::size_t u) const { return units_[u].numel() * num_bytes(run_.param_dtype); }
  std::int64_t gathered(std::size_t u) const { return run_.stage == 2 || is_persistent(u) ? 0 : whole(u); }
  std::int64_t leaf(const FlatRange& range) const { return range.numel() * num_bytes(run_.leaf_dtype); }
  bool is_last(std::size_t i) const {
    return i >= s_.size() / 2 &&
           std::count(s_.begin() + static_cast<std::ptrdiff_t>(i + 1), s_.end(), s_[i]) == 0;
  }
  bool meets(const FlatRange& bucket, std::size_t u) const {
    return std::max(bucket.begin, units_[u].begin) < std::min(bucket.end, units_[u].end);
  }
  std::size_t units_in(const FlatRange& bucket) const {
    std::size_t count = 0;
    for (std::size_t u = 0; u < units_.size(); ++u) count += meets(bucket, u) ? 1U : 0U;
    return count;
  }
  void add_params(std::int64_t bytes) {
    params_ += bytes;
    peak_.param_peak = std::max(peak_.param_peak, params_);
  }
  void add_grads(std::int64_t bytes) {
    grads_ += bytes;
    peak_.grad_peak = std::max(peak_.grad_peak, grads_);
  }
  void seal(std::size_t k) {
    const auto u = static_cast<std::size_t>(s_[k]);
    bool viewed = false;
    std::int64_t due = 0;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      if (!meets(buckets_[b], u)) continue;
      if (units_in(buckets_[b]) == 1) {
        viewed = true;
        continue;
      }
      if (!held_[b]) add_grads(leaf(buckets_[b]));
      held_[b] = true;
      bool complete = true;
      for (std::size_t i = k + 1; i < s_.size(); ++i) {
        complete = complete && !meets(buckets_[b], static_cast<std::size_t>(s_[i]));
      }
      if (complete) due += leaf(buckets_[b]);
    }
    if (viewed) {
      due += leaf(units_[u]);
    } else {
      grads_ -= leaf(units_[u]);
    }
    due_.emplace_back(k + (run_.overlap ? 2 : 0), due);
    if (!run_.overlap) free_due(k);
  }
  void free_due(std::size_t i) {
    for (auto& [when, bytes] : due_) {
      if (when <= i) grads_ -= std::exchange(bytes, 0);
    }
  }

  const PassCase& run_;
  const FlatLayout layout_;
  const std::vector<FlatRange> units_, buckets_;
  std::vector<int> s_;
  std::vector<bool> held_;
  std::vector<std::pair<std::size_t, std::int64_t>> due_;
  std::int64_t params_ = 0, grads_ = 0;
  Walk peak_;
};

}  // namespace zeroproof::tests
