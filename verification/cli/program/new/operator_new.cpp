// Of the programs alone: `new` that says what it was asked for. Whoever links the libraries keeps their own.

#include <cstdlib>
#include <new>

#include "verification/cli/program/out_of_memory.hpp"

namespace {

void* or_throw(void* memory, std::size_t num_bytes) {
  if (memory == nullptr) throw zeroproof::verification::OutOfMemory(num_bytes);
  return memory;
}

void* aligned(std::size_t num_bytes, std::align_val_t alignment) {
  const auto to = static_cast<std::size_t>(alignment);
  return or_throw(std::aligned_alloc(to, (num_bytes + to - 1) / to * to), num_bytes);
}

}  // namespace

void* operator new(std::size_t num_bytes) {
  return or_throw(std::malloc(num_bytes == 0 ? 1 : num_bytes), num_bytes);
}
void* operator new[](std::size_t num_bytes) { return ::operator new(num_bytes); }
void* operator new(std::size_t num_bytes, std::align_val_t to) {
  return aligned(num_bytes == 0 ? 1 : num_bytes, to);
}
void* operator new[](std::size_t num_bytes, std::align_val_t to) { return ::operator new(num_bytes, to); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
