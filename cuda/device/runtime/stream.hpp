#pragma once
// Queues of work for a device, and marks in them. Like runtime.hpp, this needs no CUDA.

#include <functional>
#include <map>
#include <memory>

namespace zeroproof::cuda::device {

class Event;

/// What a device does in the order in which it was given. Streams are ordered among each other by events and by nothing
/// else; the default stream of CUDA is not used. One host thread at a time enqueues.
class Stream {
 public:
  Stream();
  /// What it was given is still done.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// What is enqueued from now on starts after the event's mark, as it is now: marks that are made later do not count.
  /// Of an event that was never recorded nothing is waited for.
  void wait_for(const Event& event);

  struct Queue;  // CUDA's, or a simulated one
  Queue& queue() const { return *queue_; }

  /// The T that is kept for this stream alone: made by the first call, and gone before the stream is, which is the
  /// current one then. One host thread at a time.
  template <class T>
  T& kept() {
    static constexpr char type{};  // one address for each T
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

/// Where this host thread enqueues: the innermost UseStream, or a stream of the thread's own.
Stream& current_stream();

/// What libraries of CUDA know the current stream as, a cudaStream_t. Of the simulated device it is the address of the
/// std::shared_ptr<sim::WorkQueue> of the stream, which lives as long as the stream does.
void* native_stream();

/// Makes a stream the current one of this host thread as long as this lives.
class UseStream {
 public:
  explicit UseStream(Stream& stream);
  ~UseStream();
  UseStream(const UseStream&) = delete;
  UseStream& operator=(const UseStream&) = delete;

 private:
  Stream* before_;
};

/// Whether what the current stream is given is written into a graph instead of being done.
bool capturing();

/// A mark in a stream; no time is taken. Any host thread may ask for it.
class Event {
 public:
  Event();
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;

  /// Marks the end of what the current stream has been given so far. Whoever waits for an earlier mark still does.
  void record();

  /// Whether the device has come past the mark; true of an event that was never recorded. Does not wait.
  /// Errors: what went wrong in the work before the mark.
  bool reached() const;

  struct Mark;
  const Mark& mark() const { return *mark_; }

 private:
  std::unique_ptr<Mark> mark_;
};

/// Waits until the device has done all that the current stream was given, and what stage_to_host() (memory.hpp) was
/// asked for there is in its place.
/// Errors: what went wrong in it; nothing comes into its place any more. internal while a graph is captured.
void wait_for_stream();

/// The same of an event. `meanwhile` is called between looks, and may throw to give up.
void wait_for_event(const Event& event, const std::function<void()>& meanwhile = {});

/// Makes what is called between the looks of one wait.
using MakeWatch = std::function<std::function<void()>()>;

/// As long as this lives, every wait of this host thread that has no `meanwhile` of its own is made
/// of looks at the device with a watch of `make` in between: for a device whose work may never end by itself.
class WatchWaits {
 public:
  /// make outlives this; an empty one watches nothing.
  explicit WatchWaits(const MakeWatch& make);
  ~WatchWaits();
  WatchWaits(const WatchWaits&) = delete;
  WatchWaits& operator=(const WatchWaits&) = delete;

 private:
  const MakeWatch* before_;
};

}  // namespace zeroproof::cuda::device
