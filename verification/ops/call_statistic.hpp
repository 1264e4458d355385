#pragma once

#include <string>

namespace zeroproof::verification {

class OpCall;

/// A property of the results of many calls that no single result has.
class CallStatistic {
 public:
  virtual ~CallStatistic() = default;

  /// The results of a call. Both calls are only read.
  virtual void add(const OpCall& pristine, const OpCall& candidate) = 0;

  /// What is wrong with the results so far, in a sentence; "" if nothing is.
  virtual std::string problem() const = 0;
};

}  // namespace zeroproof::verification
