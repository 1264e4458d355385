#pragma once

#include "common/comm/recording.hpp"

namespace zeroproof::cuda {

/// A communicator of devices that counts the traffic of its calls.
class CountedCommunicator {
 public:
  virtual ~CountedCommunicator() = default;

  /// Since the start, counted like RecordingCommunicator.
  virtual const Traffic& traffic() const = 0;
};

}  // namespace zeroproof::cuda
