#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/device/runtime/calls.hpp"
#include "cuda/device/runtime/cuda_call.hpp"

namespace zeroproof::cuda::device {

struct Graph::Recorded {
  std::vector<std::shared_ptr<const void>> kept;
  cudaGraphExec_t exec = nullptr;

  Recorded() = default;
  ~Recorded() {
    if (exec != nullptr && cudaGraphExecDestroy(exec) != cudaSuccess)
      static_cast<void>(cudaGetLastError());
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
};

namespace {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const {
    if (cudaGraphDestroy(graph) != cudaSuccess) static_cast<void>(cudaGetLastError());
  }
};
using OwnedGraph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph>;

/// Null if the capture failed; `status` says why.
OwnedGraph end_capture(cudaStream_t stream, cudaError_t& status) {
  cudaGraph_t graph = nullptr;
  status = cudaStreamEndCapture(stream, &graph);
  return OwnedGraph(graph);
}

OwnedGraph capture(const std::function<void()>& body) {
  const cudaStream_t stream = current_cuda_stream();
  if (capturing()) refuse_in_capture("another capture");
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
             "beginning to capture a graph");
  cudaError_t status = cudaSuccess;
  try {
    body();
  } catch (...) {
    const OwnedGraph dropped = end_capture(stream, status);
    static_cast<void>(cudaGetLastError());  // already being reported
    throw;
  }
  OwnedGraph graph = end_capture(stream, status);
  if (status == cudaErrorStreamCaptureUnjoined) {
    static_cast<void>(cudaGetLastError());
    fail(ErrorCode::internal, "a captured stream was not joined" + in_named_step(),
         "the graph could end before that stream does",
         "record an event at the end of the stream and let the first stream wait for it");
  }
  check_cuda(status, "capturing a graph");
  return graph;
}

}  // namespace

Graph::Graph(const std::function<void()>& body) : recorded_(std::make_unique<Recorded>()) {
  const CapturesInto captures(recorded_->kept);
  const OwnedGraph graph = capture(body);
  check_cuda(cudaGraphInstantiate(&recorded_->exec, graph.get(), 0), "instantiating a graph");
}

Graph::~Graph() = default;
Graph::Graph(Graph&& other) noexcept = default;
Graph& Graph::operator=(Graph&& other) noexcept = default;

void Graph::launch() const {
  if (capturing()) refuse_in_capture("the launch of another graph");
  check_cuda(cudaGraphLaunch(recorded_->exec, current_cuda_stream()), "launching a graph");
  ++counted_calls().graph_launches;
}

}  // namespace zeroproof::cuda::device
