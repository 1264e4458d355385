#pragma once

#include "common/comm/recording.hpp"

namespace zeroproof::cuda {

/// A communicator of devices that knows what its calls have moved.
class CountedCommunicator {
 public:
  virtual ~CountedCommunicator() = default;

  /// Since the start, as RecordingCommunicator counts.
  virtual const Traffic& traffic() const = 0;
};

}  // namespace zeroproof::cuda
