// Buffers on the ledger of a rank, in memory that records its use.

#include "cuda/optimizer/overlap/memory_ledger.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstring>

#include "common/base/error.hpp"

namespace memory_ledger_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::cuda;

/// A device of one buffer; it may fail like a real one: every later call is then an error.
struct OneBuffer {
  alignas(64) std::array<std::byte, 1024> bytes{};
  int given_back = 0;
  bool failed = false;
};
OneBuffer memory_of_device;

void fill(void* memory, unsigned char byte, std::int64_t num_bytes) {
  ZP_CHECK(!memory_of_device.failed, ErrorCode::internal, "filling device memory failed",
           "an illegal instruction was encountered", "look for the kernel");
  std::memset(memory, byte, static_cast<std::size_t>(num_bytes));
}

constexpr ForeignMemory one_buffer = {
    [](std::int64_t) { return memory_of_device.bytes.data(); },
    [](std::byte*) noexcept { ++memory_of_device.given_back; },
    fill,
    [](void* host, const void* memory, std::int64_t num_bytes) {
      std::memcpy(host, memory, static_cast<std::size_t>(num_bytes));
    },
};

MemorySpace space_of_device() {
  memory_of_device = {};
  MemorySpace space;
  space.kind = Space::device;
  space.memory = &one_buffer;
  return space;
}

}  // namespace

TEST_CASE("ledger: a buffer is NaN when its memory is freed") {
  const MemorySpace space = space_of_device();
  MemoryLedger ledger(space, true);
  const std::byte* payload = nullptr;
  {
    const CountedBuffer buffer(ledger, MemoryClass::master, 3, DType::fp32);
    CHECK(ledger.use().total_now == 12);
    payload = static_cast<const std::byte*>(buffer->data());
    fill(buffer->data(), 0, 12);
  }
  CHECK(payload[0] == std::byte{0xFF});
  CHECK(payload[11] == std::byte{0xFF});
  CHECK(memory_of_device.given_back == 1);
  CHECK(ledger.use().total_now == 0);
}

TEST_CASE("ledger: freeing memory of a failed device does not throw") {
  const MemorySpace space = space_of_device();
  MemoryLedger ledger(space, true);
  {
    const CountedBuffer buffer(ledger, MemoryClass::master, 3, DType::fp32);
    memory_of_device.failed = true;
  }
  CHECK(memory_of_device.given_back == 1);
  CHECK(ledger.use().total_now == 0);
}

}  // namespace memory_ledger_test
