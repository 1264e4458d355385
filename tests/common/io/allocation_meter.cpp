#include "tests/common/io/allocation_meter.hpp"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

thread_local bool counting = false;
thread_local std::size_t largest = 0, held = 0, peak = 0;

void* counted_new(std::size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  if (counting) {
    largest = std::max(largest, size);
    held += ::malloc_usable_size(memory);
    // Memory from before the meter may be freed meanwhile: held then wraps below zero and counts as none.
    if (held < ~std::size_t{0} / 2) peak = std::max(peak, held);
  }
  return memory;
}

void counted_delete(void* memory) {
  if (counting && memory != nullptr) held -= ::malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void operator delete(void* memory, std::size_t) noexcept;  // clang predeclares only the other two

void* operator new(std::size_t size) { return counted_new(size); }
void operator delete(void* memory) noexcept { counted_delete(memory); }
void operator delete(void* memory, std::size_t) noexcept { counted_delete(memory); }

namespace zeroproof::tests {

AllocationMeter::AllocationMeter() {
  largest = held = peak = 0;
  counting = true;
}
AllocationMeter::~AllocationMeter() { counting = false; }
AllocationCount AllocationMeter::count() const { return {largest, peak}; }

}  // namespace zeroproof::tests
