// Clip groups on a device: the bits of the step on the host, phase by phase, enqueued, and
// replayed.

#include <doctest.h>

#include <limits>
#include <vector>

#include "cuda/device/runtime/device.hpp"
#include "tests/cuda/device/enqueued_support.hpp"

namespace clip_groups_step_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

/// One group with a limit far below its norm, one without, one with the run's; the last has no
/// elements.
ClipGroups four_groups() {
  ClipGroups groups;
  groups.rules = {{"low", {}, false, 1e-3}, {"free", {}, false, 0.0}, {"empty", {}, false, {}}};
  groups.of_tensor = {1, 3, 0, 2};
  return groups;
}

constexpr NormForm forms[] = {NormForm::chunk1024, NormForm::exact, NormForm::one, NormForm::inf};

const ExposedBuffer& by_id(const std::vector<ExposedBuffer>& buffers, BufferId id) {
  for (const ExposedBuffer& buffer : buffers) {
    if (buffer.id == id) return buffer;
  }
  FAIL("a buffer is not exposed");
  return buffers.front();
}

void check_same_words(DistributedOptimizer& want, DistributedOptimizer& got, Phase phase,
                      BufferId id) {
  const std::vector<ExposedBuffer> ours = want.exposed(phase);
  const std::vector<ExposedBuffer> theirs = got.exposed(phase);
  const TensorView& a = by_id(ours, id).view;
  const TensorView& b = by_id(theirs, id).view;
  REQUIRE(a.num_bytes() == b.num_bytes());
  CHECK(std::memcmp(a.data, b.data, static_cast<std::size_t>(a.num_bytes())) == 0);
}

void check_same_norms(EnqueuedRank& rank) {
  const bool largest = rank.setup.hyper.norm == NormForm::inf;
  check_same_words(*rank.on_host, *rank.optimizer, Phase::norm,
                   largest ? BufferId::grad_amax : BufferId::norm_limbs);
  check_same_words(*rank.on_host, *rank.optimizer, Phase::norm, BufferId::grad_norm);
  check_same_words(*rank.on_host, *rank.optimizer, Phase::clip, BufferId::clip_coef);
}

}  // namespace

TEST_CASE("clip groups on a device: enqueued and replayed steps have the host's bits") {
  if (!cuda::device::device_info().answers) return;
  for (const NormForm form : forms) {
    for (const bool graphs : {false, true}) {
      CAPTURE(static_cast<int>(form));
      CAPTURE(graphs);
      EnqueuedRank rank(graphs);
      rank.setup.clip_groups = four_groups();
      rank.setup.hyper.norm = form;
      rank.remake(2, graphs);
      DeviceGrads on_device(rank, 2);
      HostGrads on_host(rank, 2);
      const FullState state = rank.state();
      rank.optimizer->load_state(state);
      rank.on_host->load_state(state);
      for (const float factor : {1.0F, 0.5F, 3.0F}) {  // would show sums that were not cleared
        on_device.fill(factor);
        on_host.fill(factor);
        rank.optimizer->enqueue_step(on_device);
        rank.on_host->step(on_host);
        const cuda::StepStatus status = rank.optimizer->wait();
        check_same_norms(rank);
        rank.check_same_state();
        const std::vector<ExposedBuffer> clip = rank.on_host->exposed(Phase::clip);
        const auto* coefs = static_cast<const float*>(by_id(clip, BufferId::clip_coef).view.data);
        CHECK(status.clip_coef == coefs[0]);
        CHECK(coefs[1] < coefs[0]);
        CHECK(coefs[2] == 1);
        CHECK(coefs[3] == 1);
      }
    }
  }
}

TEST_CASE("clip groups on a device: phase by phase, in phases and in two passes") {
  if (!cuda::device::device_info().answers) return;
  for (const NormForm form : forms) {
    for (const bool fused : {false, true}) {
      CAPTURE(static_cast<int>(form));
      CAPTURE(fused);
      EnqueuedRank rank(false);
      rank.setup.clip_groups = four_groups();
      rank.setup.hyper.norm = form;
      rank.remake(1, false);
      rank.optimizer = cuda::make_enqueued_optimizer(rank.setup, fused, false);
      HostGrads leaves(rank, 1);
      const FullState state = rank.state();
      rank.optimizer->load_state(state);
      rank.on_host->load_state(state);
      for (int step = 0; step < 2; ++step) {
        for (const Phase phase : all_phases) {
          rank.optimizer->run_phase(phase, leaves);
          rank.on_host->run_phase(phase, leaves);
          if (phase == Phase::clip) check_same_norms(rank);
        }
        rank.check_same_state();
      }
    }
  }
}

TEST_CASE("clip groups on a device: a skipped step has no norm and no coefficient in any group") {
  if (!cuda::device::device_info().answers) return;
  EnqueuedRank rank(false);
  rank.setup.clip_groups = four_groups();
  rank.remake(1, false);
  DeviceGrads leaves(rank, 1);
  rank.optimizer->load_state(rank.state());
  leaves.fill(std::numeric_limits<float>::infinity());
  rank.optimizer->enqueue_step(leaves);
  CHECK(rank.optimizer->wait().skipped);
  const std::vector<ExposedBuffer> norm = rank.optimizer->exposed(Phase::norm);
  const std::vector<ExposedBuffer> clip = rank.optimizer->exposed(Phase::clip);
  for (int group = 0; group < 4; ++group) {
    const double n = static_cast<const double*>(by_id(norm, BufferId::grad_norm).view.data)[group];
    const float c = static_cast<const float*>(by_id(clip, BufferId::clip_coef).view.data)[group];
    CHECK(n != n);
    CHECK(c != c);
  }
}

}  // namespace clip_groups_step_test
