#pragma once
// A training run of the production optimizer alone, on all ranks of a world, without a reference.
// It resumes from checkpoints and saves them.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint_saver.hpp"
#include "common/step/memory_use.hpp"
#include "verification/compare/judge/rank_comparison.hpp"
#include "verification/tools/train/run_log.hpp"
#include "verification/training/ranks/world.hpp"

namespace zeroproof::verification {

struct JobSettings {
  const Experiment& experiment;
  CaseSpec spec;  ///< where and how it runs
  Json training;  ///< training_identity()
  RankComparison::MakeOptimizer make_optimizer;
  bool in_parts = true;         ///< whether the optimizer reads a state in parts, not as a whole
  int omp_threads = 1;          ///< of a rank
  std::string folder = {};      ///< of checkpoints; "" for none
  std::int64_t save_every = 0;  ///< steps; 0 for the end alone
  int keep = 0;                 ///< checkpoints that are left after a save; 0 for all
  SaveMode mode = SaveMode::synchronous;
  bool resume = false;
  std::optional<std::int64_t> first_checkpoint = {};  ///< to continue from, without saving any
  bool allow_fallback = false;  ///< an older checkpoint, if the newest is damaged
  std::string log = {};         ///< file; "" for none
  std::string dump = {};        ///< safetensors file of the last state and parameters; "" for none
  std::function<void(std::int64_t from, const std::string& checkpoint)> on_start =
      {};  ///< on rank 0, as the next two
  std::function<void(const StepRecord&)> on_step = {};
  std::function<void(const StepRecord&)> on_loaded = {};  ///< digests of the first state; on rank 0
  std::function<void(const std::string& line)> on_news = {};  ///< a checkpoint that was committed
  std::function<void(const std::string& line)> on_damage =
      {};                                             ///< a damaged checkpoint that was skipped
  std::function<bool()> stop = [] { return false; };  ///< called on every rank after every step
};

/// The results of a run, on rank 0.
struct JobResult {
  std::int64_t from = 0;  ///< steps before this run
  std::int64_t last = 0;  ///< the last step of this run
  bool stopped = false;   ///< before the last step of the run
  std::vector<StepRecord> steps;
  StepRecord state;        ///< digests of the final state, also after a skipped step
  double gradients_s = 0;  ///< in the model
  std::array<double, all_phases.size()> phases_s{};  ///< zeros for fused steps
  double optimizer_s = 0, saving_s = 0, sums_s = 0;  ///< time that training waited for each
  MemoryUse memory;
};

/// Steps `from`+1 to the experiment's last one, on the ranks of `world` in this process.
/// Errors: those of the optimizer; of checkpoints as CheckpointSaver, CheckpointReader and
/// require_same_training; io of the log. All committed checkpoints are then as they were.
JobResult run_training_job(const JobSettings& settings, World& world);

}  // namespace zeroproof::verification
