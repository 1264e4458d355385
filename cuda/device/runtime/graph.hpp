#pragma once
// Work that is captured once and launched repeatedly as one unit. Needs no CUDA.

#include <functional>
#include <memory>

namespace zeroproof::cuda::device {

/// The graph that this host thread captures owns `what` (memory that its work uses) until the graph
/// is destroyed. Errors: internal if no graph is being captured.
void keep_with_graph(std::shared_ptr<const void> what);

/// Arguments of kernels and addresses of copies are those of the capture: values that change
/// between launches must be stored in memory.
class Graph {
 public:
  /// Captures the work that `body` enqueues on the current stream, and on streams that wait for its
  /// events, instead of running it. The first stream must wait for every other such stream before
  /// body ends. Errors: internal if it does not, or if body waits for the device or allocates;
  /// exceptions of body.
  explicit Graph(const std::function<void()>& body);
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;

  /// Enqueues the captured work on the current stream.
  void launch() const;

 private:
  struct Recorded;
  std::unique_ptr<Recorded> recorded_;
};

}  // namespace zeroproof::cuda::device
