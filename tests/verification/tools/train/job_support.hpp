#pragma once
// Training jobs of byte_gpt_tiny, ranks as threads, that are stopped and continue on other ranks.

#include <doctest.h>

#include <atomic>
#include <bit>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.hpp"
#include "tests/verification/training/training_support.hpp"
#include "verification/tools/train/job_text.hpp"
#include "verification/tools/train/training_identity.hpp"
#include "verification/tools/train/training_job.hpp"

namespace zeroproof::tests {

struct JobPlan {
  std::string folder = {};
  bool resume = false;
  std::int64_t stop_after = 0;  ///< steps of this job; 0: it runs to the end
  verification::Implementation implementation = verification::Implementation::host;
  SaveMode mode = SaveMode::synchronous;
  std::int64_t save_every = 0;
};

inline verification::JobResult run_job(const TinyTraining& run, verification::CaseSpec spec,
                                       const JobPlan& plan) {
  spec.implementation = plan.implementation;
  verification::JobSettings settings{run.experiment, spec,
                                     verification::training_identity(run.experiment, spec, ""),
                                     verification::candidate_factory(spec.implementation)};
  settings.folder = plan.folder;
  settings.resume = plan.resume;
  settings.mode = plan.mode;
  settings.save_every = plan.save_every;
  // Called on every rank after every step.
  std::atomic<std::int64_t> questions = 0;
  const std::int64_t last = plan.stop_after * spec.world.size;
  settings.stop = [&] { return last > 0 && ++questions >= last; };
  const auto world = verification::make_local_world(spec.world, run.config.comm_timeout_s);
  return verification::run_training_job(settings, *world);
}

/// The record of one step, except for its time; "" if all of it is the same.
inline std::string difference(const verification::StepRecord& a,
                              const verification::StepRecord& b) {
  const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  if (a.step != b.step) return "step";
  if (a.applied_steps != b.applied_steps) return "applied_steps";
  if (bits(a.loss) != bits(b.loss)) return "loss";
  if (a.log2_loss_scale != b.log2_loss_scale) return "log2_loss_scale";
  if (a.skipped != b.skipped) return "skipped";
  if (!a.skipped && bits(a.grad_norm) != bits(b.grad_norm)) return "grad_norm";
  if (a.sums.size() != b.sums.size()) return "number of buffers";
  for (const auto& [buffer, sums] : a.sums) {
    if (b.sums.count(buffer) == 0 || b.sums.at(buffer) != sums) return buffer;
  }
  return "";
}

/// Continues the record of a job, and checks every step of it.
inline void expect_same(const std::vector<verification::StepRecord>& whole,
                        const verification::JobResult& part) {
  for (const verification::StepRecord& record : part.steps) {
    CAPTURE(record.step);
    REQUIRE(record.step >= 1);
    REQUIRE(record.step <= static_cast<std::int64_t>(whole.size()));
    CHECK(difference(whole[static_cast<std::size_t>(record.step) - 1], record) == "");
  }
}

}  // namespace zeroproof::tests
