#pragma once

#include <exception>

#include "common/base/error.hpp"
#include "verification/cases/case.hpp"

namespace zeroproof::verification {

/// The status of a case that an exception ended.
inline Status status_of(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  if (ours == nullptr) return Status::error;
  if (ours->code() == ErrorCode::unavailable) return Status::skipped;
  return ours->code() == ErrorCode::timeout ? Status::hung : Status::error;
}

}  // namespace zeroproof::verification
