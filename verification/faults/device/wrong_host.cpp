// A host that reads memory without waiting for the device.

#include <cstring>

#include "cuda/comm/memory/space_array.hpp"
#include "verification/faults/device/wrong_step.hpp"

namespace zeroproof::verification {
namespace {

using cuda::DeviceOptimizer;
using cuda::PinnedArray;

/// Reads the record as soon as its copy is enqueued.
class LooksTooEarly final : public DeviceOptimizer {
 public:
  using DeviceOptimizer::DeviceOptimizer;

 private:
  bool step(GradSource& leaves, StepObserver*) override {
    enqueue_step(leaves);
    const cuda::RankStream::Inside inside(stream_);
    cuda::device::enqueue_to_host(record_.data(), step_->record(), record_.num_bytes());
    step_->store_record(*record_.data());
    mirrors_.refill();
    return !skipped();
  }

  PinnedArray<cuda::device::StepRecord> record_{1};
};

/// Copies every micro-batch gradient through the same pinned memory.
class OneStagingBuffer final : public GradSource {
 public:
  OneStagingBuffer(GradSource& leaves, std::int64_t num_bytes)
      : leaves_(leaves), pinned_(num_bytes), copy_(cuda::device_space(), num_bytes) {}

  void read_from(GradSource& leaves) { leaves_ = leaves; }
  Space space() const override { return Space::device; }
  TensorView micro_batch_grad(std::int64_t micro_batch) override {
    const TensorView leaf = leaves_.get().micro_batch_grad(micro_batch);
    std::memcpy(pinned_.data(), leaf.data, static_cast<std::size_t>(leaf.num_bytes()));
    cuda::device::enqueue_to_device(copy_.data(), pinned_.data(), leaf.num_bytes());
    return {copy_.data(), leaf.dtype, leaf.numel};
  }
  std::int64_t num_tokens(std::int64_t micro_batch) const override {
    return leaves_.get().num_tokens(micro_batch);
  }
  bool has_grad(std::int64_t micro_batch, std::int64_t tensor) const override {
    return leaves_.get().has_grad(micro_batch, tensor);
  }

 private:
  std::reference_wrapper<GradSource> leaves_;
  PinnedArray<std::byte> pinned_;
  cuda::SpaceArray<std::byte> copy_;
};

class StagingReused final : public DeviceOptimizer {
 public:
  using DeviceOptimizer::DeviceOptimizer;
  ~StagingReused() override {
    const cuda::RankStream::Inside inside(stream_);
    staged_.reset();
  }

 private:
  void enqueue_step(GradSource& leaves) override {
    {
      const cuda::RankStream::Inside inside(stream_);
      const std::int64_t numel = setup_.layout->padded_numel();
      if (!staged_)
        staged_ = std::make_unique<OneStagingBuffer>(leaves, numel * num_bytes(setup_.grad_dtype));
      staged_->read_from(leaves);
    }
    DeviceOptimizer::enqueue_step(*staged_);
  }

  std::unique_ptr<OneStagingBuffer> staged_;
};

}  // namespace

std::unique_ptr<DistributedOptimizer> wrong_host(std::string_view fault,
                                                 const FaultContext& context) {
  if (fault == "status-read-early") return on_device<LooksTooEarly>(context, {});
  if (fault == "staging-reused") return on_device<StagingReused>(context, {});
  return nullptr;
}

}  // namespace zeroproof::verification
