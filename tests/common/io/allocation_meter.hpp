#pragma once
// Counts memory of operator new. A program that links allocation_meter.cpp counts all allocations.

#include <cstddef>

namespace zeroproof::tests {

struct AllocationCount {
  std::size_t largest = 0;  ///< bytes of the largest single request
  std::size_t peak = 0;     ///< most bytes held at once beyond those held at the start
};

/// Starts counting from zero; one at a time.
class AllocationMeter {
 public:
  AllocationMeter();
  ~AllocationMeter();
  AllocationMeter(const AllocationMeter&) = delete;
  AllocationMeter& operator=(const AllocationMeter&) = delete;

  AllocationCount count() const;
};

}  // namespace zeroproof::tests
