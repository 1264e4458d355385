#pragma once
// Queues of work for a device, and events in them. Like runtime.hpp, this needs no CUDA.

#include <functional>
#include <map>
#include <memory>

namespace zeroproof::cuda::device {

class Event;

/// Work that a device executes in the order of enqueueing. Only events order streams among each
/// other; the default stream of CUDA is not used. One host thread at a time enqueues.
class Stream {
 public:
  Stream();
  /// Enqueued work still runs.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Work enqueued from now on starts after the event's current mark; later marks have no effect.
  /// An event that was never recorded causes no wait.
  void wait_for(const Event& event);

  struct Queue;  // CUDA's stream, or a simulated one
  Queue& queue() const { return *queue_; }

  /// The T that belongs to this stream alone: created by the first call, destroyed before the
  /// stream, which is then the current one. One host thread at a time.
  template <class T>
  T& kept() {
    static constexpr char type{};  // one address per T
    std::shared_ptr<void>& one = kept_[&type];
    if (!one) one = std::make_shared<T>();
    return *static_cast<T*>(one.get());
  }

 private:
  void drop_kept();
  friend Stream& current_stream();
  explicit Stream(std::shared_ptr<Queue> queue);
  std::shared_ptr<Queue> queue_;
  std::map<const char*, std::shared_ptr<void>> kept_;
};

/// The stream on which this host thread enqueues: the innermost UseStream, or the thread's own
/// stream.
Stream& current_stream();

/// Handle of the current stream for CUDA libraries, a cudaStream_t. On the simulated device it is
/// the address of the stream's std::shared_ptr<sim::WorkQueue>, valid as long as the stream exists.
void* native_stream();

/// Makes a stream the current one of this host thread while this object exists.
class UseStream {
 public:
  explicit UseStream(Stream& stream);
  ~UseStream();
  UseStream(const UseStream&) = delete;
  UseStream& operator=(const UseStream&) = delete;

 private:
  Stream* before_;
};

/// Whether a graph captures the work of the current stream instead of running it.
bool capturing();

/// A mark in a stream, without a time. Any host thread may query it while none records it.
class Event {
 public:
  Event();
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;

  /// Marks the end of the work that the current stream has so far. Waits for an earlier mark are
  /// not changed.
  void record();

  /// Whether the device has passed the mark; true for an event that was never recorded. Does not
  /// wait. Errors: those of the work before the mark.
  bool reached() const;

  struct Mark;
  const Mark& mark() const { return *mark_; }

 private:
  std::unique_ptr<Mark> mark_;
};

/// Waits until the device has done all work of the current stream and the targets of
/// stage_to_host() (memory.hpp) on it are filled. Errors: those of the work, in which case no
/// further target is filled; internal while a graph is captured.
void wait_for_stream();

/// The same for an event. `meanwhile` is called between polls and may throw to stop waiting.
void wait_for_event(const Event& event, const std::function<void()>& meanwhile = {});

/// Creates the function that one wait calls between polls.
using MakeWatch = std::function<std::function<void()>()>;

/// While this object exists, every wait of this host thread without its own `meanwhile` polls the
/// device and calls a watch created by `make` in between: for a device whose work may never end by
/// itself.
class WatchWaits {
 public:
  /// make must outlive this object; an empty one watches nothing.
  explicit WatchWaits(const MakeWatch& make);
  ~WatchWaits();
  WatchWaits(const WatchWaits&) = delete;
  WatchWaits& operator=(const WatchWaits&) = delete;

 private:
  const MakeWatch* before_;
};

}  // namespace zeroproof::cuda::device
