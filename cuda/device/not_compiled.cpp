// All device functions of a build without nvcc. A call is an error.

#include "common/base/error.hpp"
#include "cuda/comm/combine_words.hpp"
#include "cuda/device/grad_stats.hpp"
#include "cuda/device/kernels/bulk/batched_copy.hpp"
#include "cuda/device/kernels/bulk/count_differing.hpp"
#include "cuda/device/operations.hpp"
#include "cuda/device/runtime/calls.hpp"
#include "cuda/device/runtime/device.hpp"
#include "cuda/device/runtime/timed_event.hpp"
#include "cuda/device/step/fold_nodes.hpp"
#include "cuda/device/step/scale_passes.hpp"
#include "cuda/device/step/step_passes.hpp"
#include "cuda/device/step/stored_passes.hpp"
#include "cuda/device/step/transpose_bytes.hpp"
#include "cuda/reduce/sources/fill_grad.hpp"

namespace zeroproof::cuda::device {

namespace {

[[noreturn]] void not_compiled() {
  fail(ErrorCode::unavailable, "a device implementation was called",
       "this program has no device code",
       "build it with ZP_CUDA=ON, or use the host implementations");
}

}  // namespace

extern "C" void zp_not_compiled();
void zp_not_compiled() { not_compiled(); }

const DeviceInfo& device_info() {
  static const DeviceInfo info{false, false, false, "this program has no device code"};
  return info;
}

std::vector<ListedDevice> listed_devices() { return {}; }

// Each of these functions is an alias of zp_not_compiled, which reads no argument and does not
// return.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wattribute-alias"
#endif
#define ZP_NOT_COMPILED(name, ...) decltype(name) name __attribute__((alias("zp_not_compiled")));

ZP_OPERATIONS(ZP_NOT_COMPILED)
ZP_NOT_COMPILED(enqueue_grad_stats)

// runtime/
ZP_NOT_COMPILED(num_devices)
ZP_NOT_COMPILED(choose_device)
ZP_NOT_COMPILED(num_multiprocessors)
ZP_NOT_COMPILED(device_allocate)
ZP_NOT_COMPILED(pinned_allocate)
ZP_NOT_COMPILED(shared_allocate)
ZP_NOT_COMPILED(keep_on_host)
ZP_NOT_COMPILED(enqueue_to_device)
ZP_NOT_COMPILED(enqueue_to_host)
ZP_NOT_COMPILED(enqueue_on_device)
ZP_NOT_COMPILED(enqueue_fill)
ZP_NOT_COMPILED(is_on_device)
ZP_NOT_COMPILED(is_on_host)
ZP_NOT_COMPILED(thread_queue)
ZP_NOT_COMPILED(wait_for_current_stream)
ZP_NOT_COMPILED(seconds_between)
ZP_NOT_COMPILED(native_stream)

// step/
ZP_NOT_COMPILED(enqueue_unscale)
ZP_NOT_COMPILED(enqueue_norm)
ZP_NOT_COMPILED(enqueue_clip)
ZP_NOT_COMPILED(enqueue_trust_norms)
ZP_NOT_COMPILED(enqueue_trust_ratios)
ZP_NOT_COMPILED(enqueue_update)
ZP_NOT_COMPILED(enqueue_cast)
ZP_NOT_COMPILED(enqueue_fused_update)
ZP_NOT_COMPILED(enqueue_decide)
ZP_NOT_COMPILED(enqueue_collect_amax)
ZP_NOT_COMPILED(enqueue_make_scales)
ZP_NOT_COMPILED(enqueue_make_codes)
ZP_NOT_COMPILED(enqueue_dequantize_masters)
ZP_NOT_COMPILED(enqueue_stored_update)
ZP_NOT_COMPILED(enqueue_stored_fused_update)
ZP_NOT_COMPILED(enqueue_stored_trust_norms)
ZP_NOT_COMPILED(enqueue_store_fragments)
ZP_NOT_COMPILED(enqueue_store_loaded)
ZP_NOT_COMPILED(enqueue_copy_masters)
ZP_NOT_COMPILED(enqueue_transpose_bytes)
ZP_NOT_COMPILED(enqueue_fold)
ZP_NOT_COMPILED(enqueue_measured_fold)
ZP_NOT_COMPILED(enqueue_binned_deposit)
ZP_NOT_COMPILED(enqueue_binned_merge)
ZP_NOT_COMPILED(enqueue_binned_finish)

// kernels/bulk/, reduce/sources/, comm/
ZP_NOT_COMPILED(batched_copy_scratch_bytes)
ZP_NOT_COMPILED(enqueue_batched_copy)
ZP_NOT_COMPILED(enqueue_leaf)
ZP_NOT_COMPILED(enqueue_clock)
ZP_NOT_COMPILED(enqueue_until)
ZP_NOT_COMPILED(enqueue_combine)
ZP_NOT_COMPILED(enqueue_add_ranks)

// Written out: overloads, a default argument, and classes whose constructors throw.
void enqueue_finite_norm(const StepMemory&, const StepRules&, bool) { not_compiled(); }
std::int64_t count_differing(const std::uint16_t*, const std::uint16_t*, std::int64_t) {
  not_compiled();
}
std::int64_t count_differing(const std::uint32_t*, const std::uint32_t*, std::int64_t) {
  not_compiled();
}

DeviceSegments::DeviceSegments(Span<const GradSegment>) { not_compiled(); }

void device_release(void*) noexcept {}
void pinned_release(void*) noexcept {}
void shared_release(void*) noexcept {}

struct Stream::Queue {};
Stream::Stream() { not_compiled(); }
Stream::Stream(std::shared_ptr<Queue>) {
  not_compiled();
}  // NOLINT(performance-unnecessary-value-param)
Stream::~Stream() = default;
void Stream::wait_for(const Event&) { not_compiled(); }

struct Event::Mark {};
Event::Event() { not_compiled(); }
Event::~Event() = default;
Event::Event(Event&& other) noexcept = default;
Event& Event::operator=(Event&& other) noexcept = default;
void Event::record() { not_compiled(); }
bool Event::reached() const { not_compiled(); }

struct TimedEvent::Mark {};
TimedEvent::TimedEvent() { not_compiled(); }
TimedEvent::~TimedEvent() = default;
TimedEvent::TimedEvent(TimedEvent&& other) noexcept = default;
TimedEvent& TimedEvent::operator=(TimedEvent&& other) noexcept = default;
void TimedEvent::record() { not_compiled(); }

struct Graph::Recorded {};
bool capturing() { return false; }
Graph::Graph(const std::function<void()>&) { not_compiled(); }
Graph::~Graph() = default;
Graph::Graph(Graph&& other) noexcept = default;
Graph& Graph::operator=(Graph&& other) noexcept = default;
void Graph::launch() const { not_compiled(); }

}  // namespace zeroproof::cuda::device
