#pragma once
// Work that is written down once and given to a device as one piece, again and again. Needs no CUDA.

#include <functional>
#include <memory>

namespace zeroproof::cuda::device {

/// The graph that this host thread captures holds `what` until it is destroyed: memory that its work uses.
/// Errors: internal if none is captured.
void keep_with_graph(std::shared_ptr<const void> what);

/// Arguments of kernels and addresses of copies are those of the capture: what changes between launches has to lie in
/// memory.
class Graph {
 public:
  /// Writes down what `body` enqueues on the current stream, and on streams that wait for its events, instead of doing
  /// it. Every such stream has to be waited for by the first one before body ends.
  /// Errors: internal if one is not, or if body waits for the device or allocates; what body throws.
  explicit Graph(const std::function<void()>& body);
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;

  /// Enqueues all of it on the current stream.
  void launch() const;

 private:
  struct Recorded;
  std::unique_ptr<Recorded> recorded_;
};

}  // namespace zeroproof::cuda::device
