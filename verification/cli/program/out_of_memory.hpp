#pragma once
// Memory that runs out: how much was asked for, and what for.

#include <array>
#include <cstddef>
#include <new>

namespace zeroproof::verification {

/// What this thread asks for memory for, while the object lives. The text stays where it is: a literal.
class MemoryPurpose {
 public:
  explicit MemoryPurpose(const char* what);
  ~MemoryPurpose();
  MemoryPurpose(const MemoryPurpose&) = delete;
  MemoryPurpose& operator=(const MemoryPurpose&) = delete;

  static const char* current();

 private:
  const char* before_;
};

/// What `new` throws in the programs (out_of_memory_new.cpp): "no memory for 1234 bytes of gradient leaves".
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::size_t num_bytes) noexcept;
  const char* what() const noexcept override { return text_.data(); }

 private:
  std::array<char, 160> text_{};  // there is no memory for another one
};

}  // namespace zeroproof::verification
