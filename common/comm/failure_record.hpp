#pragma once
// The first failure of a world, shared by its communicator and all groups in one process.

#include <mutex>
#include <optional>

#include "common/base/error.hpp"

namespace zeroproof {

class FailureRecord {
 public:
  /// Stores the error unless there is one already; returns the stored one.
  Error keep(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = error;
    return *failure_;
  }

  std::optional<Error> get() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  void rethrow() const {
    const std::lock_guard lock(mutex_);
    if (failure_) throw Error(*failure_);
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
};

}  // namespace zeroproof
