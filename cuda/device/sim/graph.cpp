#include "cuda/device/runtime/graph.hpp"

#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/device/runtime/calls.hpp"
#include "cuda/device/sim/capture.hpp"
#include "cuda/device/sim/current.hpp"

namespace zeroproof::cuda::device {

struct Graph::Recorded {
  std::vector<std::shared_ptr<const void>> kept;
  std::shared_ptr<sim::Capture> capture;
};

namespace {

std::shared_ptr<sim::Capture> begin_capture() {
  const std::lock_guard lock(sim::device_mutex());
  if (capturing()) refuse_in_capture("another capture");
  return sim::Capture::begin(sim::current_queue());
}

void end_capture(sim::Capture& capture) {
  const std::lock_guard lock(sim::device_mutex());
  capture.end();
}

}  // namespace

Graph::Graph(const std::function<void()>& body) : recorded_(std::make_unique<Recorded>()) {
  recorded_->capture = begin_capture();
  sim::Capture& capture = *recorded_->capture;
  const CapturesInto captures(recorded_->kept);
  try {
    body();
  } catch (...) {
    end_capture(capture);
    throw;
  }
  end_capture(capture);
  ZP_CHECK(capture.joined(), ErrorCode::internal,
           "a captured stream was not joined" + in_named_step(),
           "the graph could end before that stream does",
           "record an event at the end of the stream and let the first stream wait for it");
}

Graph::~Graph() = default;
Graph::Graph(Graph&& other) noexcept = default;
Graph& Graph::operator=(Graph&& other) noexcept = default;

void Graph::launch() const {
  if (capturing()) refuse_in_capture("the launch of another graph");
  ++counted_calls().graph_launches;
  recorded_->capture->launch(sim::current_queue());
}

}  // namespace zeroproof::cuda::device
