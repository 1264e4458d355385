#include "tests/cuda/streams/plan_streams.hpp"

#include <array>
#include <cstddef>
#include <map>

#include "cuda/device/host_staging.hpp"
#include "cuda/device/runtime/cuda_call.hpp"

namespace zeroproof::device_test {

namespace {

using cuda::device::check_cuda;

constexpr int block_threads = 256;
constexpr int buffer_words = 1024;

/// A buffer as an operation finds it, and as it leaves it.
struct Touch {
  int buffer;
  int before;
  int after;  // the same as before: it is only read
};

/// One block. A word holds the number of times its buffer was written, or, while operation i writes, -1 - i.
__global__ void stay(int* words, const Touch* touches, int num_touches, int op, long long cycles,
                     int* disturbed) {
  const int mine = -1 - op;
  const auto look = [&](bool meanwhile) {
    for (int t = 0; t < num_touches; ++t) {
      const Touch touch = touches[t];
      const int expected = meanwhile && touch.after != touch.before ? mine : touch.before;
      for (int i = static_cast<int>(threadIdx.x); i < buffer_words; i += block_threads) {
        volatile int* word = words + touch.buffer * buffer_words + i;
        if (*word != expected) atomicOr(disturbed + op, 1);
      }
    }
  };
  const auto write = [&](bool finally) {
    for (int t = 0; t < num_touches; ++t) {
      const Touch touch = touches[t];
      if (touch.after == touch.before) continue;
      for (int i = static_cast<int>(threadIdx.x); i < buffer_words; i += block_threads) {
        volatile int* word = words + touch.buffer * buffer_words + i;
        *word = finally ? touch.after : mine;
      }
    }
    __threadfence();
  };
  look(false);
  __syncthreads();
  write(false);
  __syncthreads();
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
  __syncthreads();
  look(true);
  __syncthreads();
  write(true);
}

/// The streams and events of one run; streams do not wait for the default one, as production's must not.
class Streams {
 public:
  explicit Streams(int num_events) : events_(static_cast<std::size_t>(num_events)) {
    for (cudaStream_t& stream : streams_) {
      check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
    }
    for (cudaEvent_t& event : events_) {
      check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
    }
  }
  ~Streams() {
    for (const cudaEvent_t event : events_) static_cast<void>(cudaEventDestroy(event));
    for (const cudaStream_t stream : streams_) static_cast<void>(cudaStreamDestroy(stream));
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  cudaStream_t of(const cuda::PlanOp& op) const { return streams_[static_cast<std::size_t>(op.stream)]; }
  cudaEvent_t event(int number) const { return events_.at(static_cast<std::size_t>(number)); }
  void wait() const {
    for (const cudaStream_t stream : streams_) check_cuda(cudaStreamSynchronize(stream), "running a plan");
  }

 private:
  std::array<cudaStream_t, cuda::num_plan_streams> streams_{};
  std::vector<cudaEvent_t> events_;
};

/// What every operation finds and leaves, if they run one after another.
std::vector<std::vector<Touch>> touches_of(const cuda::StepPlan& plan, int& num_buffers) {
  std::map<cuda::PlanBuffer, int> numbers;
  std::vector<int> written;
  const auto number = [&](const cuda::PlanBuffer& buffer) {
    const auto [place, is_new] = numbers.emplace(buffer, static_cast<int>(written.size()));
    if (is_new) written.push_back(0);
    return place->second;
  };
  std::vector<std::vector<Touch>> touches;
  for (const cuda::PlanOp& op : plan.ops) {
    std::map<int, Touch> of_op;
    for (const cuda::PlanBuffer& buffer : op.reads) {
      const int b = number(buffer);
      const int now = written[static_cast<std::size_t>(b)];
      of_op[b] = {b, now, now};
    }
    for (const cuda::PlanBuffer& buffer : op.writes) {
      const int b = number(buffer);
      const int now = written[static_cast<std::size_t>(b)];
      of_op[b] = {b, now, now + 1};
    }
    touches.emplace_back();
    for (const auto& [b, touch] : of_op) {
      touches.back().push_back(touch);
      written[static_cast<std::size_t>(b)] = touch.after;
    }
  }
  num_buffers = static_cast<int>(written.size());
  return touches;
}

}  // namespace

std::vector<bool> disturbed_on_streams(const cuda::StepPlan& plan, const std::vector<std::int64_t>& cycles) {
  int num_buffers = 0;
  const auto touches = touches_of(plan, num_buffers);
  std::vector<Touch> all{{}};  // never empty, as buffers of the device are not
  for (const auto& of_op : touches) all.insert(all.end(), of_op.begin(), of_op.end());
  std::vector<int> words(static_cast<std::size_t>(num_buffers + 1) * buffer_words, 0);
  std::vector<int> disturbed(plan.ops.size() + 1, 0);

  cuda::device::HostStaging stage;
  int* device_words = stage.upload(Span<int>(words));
  const Touch* device_touches = stage.upload(Span<Touch>(all));
  int* device_disturbed = stage.upload(Span<int>(disturbed));
  check_cuda(cudaDeviceSynchronize(), "uploading a plan");  // streams of their own do not wait for copies
  const Streams streams(plan.num_events);
  std::size_t first = 1;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const cuda::PlanOp& op = plan.ops[i];
    for (const int event : op.waits) {
      check_cuda(cudaStreamWaitEvent(streams.of(op), streams.event(event), 0), "waiting for an event");
    }
    const int num_touches = static_cast<int>(touches[i].size());
    stay<<<1, block_threads, 0, streams.of(op)>>>(device_words, device_touches + first, num_touches,
                                                  static_cast<int>(i), cycles.at(i), device_disturbed);
    check_cuda(cudaGetLastError(), "launching an operation");
    first += touches[i].size();
    if (op.records >= 0)
      check_cuda(cudaEventRecord(streams.event(op.records), streams.of(op)), "recording an event");
  }
  streams.wait();
  stage.download(Span<int>(disturbed));
  disturbed.pop_back();
  return {disturbed.begin(), disturbed.end()};
}

}  // namespace zeroproof::device_test
