// Gradients that an enqueued step refuses.

#include <doctest.h>

#include "cuda/device/runtime/device.hpp"
#include "tests/cuda/device/enqueued_support.hpp"
#include "tests/cuda/expect_error.hpp"

namespace enqueued_grads_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::cuda;
using namespace zeroproof::tests;

/// A source whose last gradient differs.
class LastLeafIs final : public GradSource {
 public:
  LastLeafIs(GradSource& leaves, std::int64_t last, const TensorView& other)
      : leaves_(leaves), last_(last), other_(other) {}

  TensorView micro_batch_grad(std::int64_t micro_batch) override {
    return micro_batch == last_ ? other_ : leaves_.micro_batch_grad(micro_batch);
  }
  Space space() const override { return leaves_.space(); }

 private:
  GradSource& leaves_;
  const std::int64_t last_;
  const TensorView other_;
};

}  // namespace

TEST_CASE(
    "enqueued steps: a gradient of another size or type, or none, is refused without changes") {
  if (!device::device_info().answers) return;
  for (const bool on_device : {false, true}) {
    CAPTURE(on_device);
    EnqueuedRank rank(true);
    HostGrads host(rank, 2);
    DeviceGrads there(rank, 2);
    HostGrads& leaves = on_device ? there : host;
    rank.optimizer->load_state(rank.state());
    rank.on_host->load_state(rank.state());
    for (int step = 0; step < 4; ++step) {
      const TensorView leaf = leaves.micro_batch_grad(0);
      for (const TensorView& wrong : {TensorView{leaf.data, leaf.dtype, leaf.numel - 1},
                                      TensorView{leaf.data, DType::fp16, leaf.numel},
                                      TensorView{nullptr, leaf.dtype, leaf.numel}}) {
        for (const std::int64_t micro_batch : {0, 1}) {
          LastLeafIs other(leaves, micro_batch, wrong);
          expect_error(ErrorCode::invalid_argument, [&] { rank.optimizer->enqueue_step(other); });
        }
      }
      rank.optimizer->enqueue_step(leaves);
      rank.on_host->step(host);
    }
    CHECK(rank.optimizer->wait().applied_steps == 4);
    rank.check_same_state();
  }
}

TEST_CASE("enqueued steps: a gradient outside its declared memory is refused without changes") {
  if (!device::device_info().answers) return;
  EnqueuedRank rank(true);
  HostGrads host(rank, 2);
  DeviceGrads there(rank, 2);
  rank.optimizer->load_state(rank.state());
  rank.on_host->load_state(rank.state());
  void* const pinned = device::pinned_allocate(host.micro_batch_grad(0).num_bytes());
  for (int step = 0; step < 4; ++step) {
    const TensorView here = host.micro_batch_grad(0);
    for (const std::int64_t micro_batch : {0, 1}) {
      for (void* const data : {here.data, pinned}) {
        LastLeafIs on_host(there, micro_batch, {data, here.dtype, here.numel});
        expect_error(
            ErrorCode::invalid_argument, [&] { rank.optimizer->enqueue_step(on_host); },
            "is not on the device of its rank");
      }
      LastLeafIs on_device(host, micro_batch, there.micro_batch_grad(0));
      expect_error(
          ErrorCode::invalid_argument, [&] { rank.optimizer->enqueue_step(on_device); },
          "is in the memory of a device");
    }
    rank.optimizer->enqueue_step(there);
    rank.on_host->step(host);
  }
  CHECK(rank.optimizer->wait().applied_steps == 4);
  device::pinned_release(pinned);
  rank.check_same_state();
}

}  // namespace enqueued_grads_test
