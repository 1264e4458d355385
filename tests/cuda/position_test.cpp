// R17: the bits of an element do not depend on where it stands. Every operation of the table runs on data that is
// shifted by 0 to twice the widest vector, at odd lengths, on every instruction set of this machine; what it gives at
// offset 0 on the baseline is the measure. A new host twin is one more row.

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "common/base/philox.hpp"
#include "cuda/host/isa.hpp"
#include "tests/cuda/position_operations.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define ZP_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ZP_ADDRESS_SANITIZER
#endif
#endif
#if defined(ZP_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace {

using namespace zeroproof;
using tests::Buffer;
using tests::PositionOperation;
namespace host = zeroproof::cuda::host;

constexpr std::int64_t margin = 64;         ///< elements that must stay as they are, on both sides
constexpr std::int64_t offset_bytes = 128;  ///< twice the widest vector
constexpr std::int64_t lengths[] = {0, 1, 3, 7, 15, 17, 31, 33, 63, 65, 127, 129, 257, 1023, 1025, 2049};

/// Patterns of every kind: any bits, numbers of ordinary size, and the special ones, with ties of the 16-bit formats.
std::uint32_t make_bits(std::size_t buffer, std::size_t i) {
  static constexpr std::uint32_t specials[] = {0x00000000, 0x80000000, 0x00000001, 0x007FFFFF, 0x00800000,
                                               0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x3F800001,
                                               0x3F801000, 0xBF803000, 0x3F808000, 0x3F818000, 0x33000000};
  const Philox random(20240229, static_cast<std::uint32_t>(buffer));
  const std::uint32_t word = random.word(2 * i);
  const std::uint32_t kind = random.word(2 * i + 1);
  if (kind % 16 == 0) return specials[kind / 16 % std::size(specials)];
  if (kind % 4 == 1) return word;
  return std::bit_cast<std::uint32_t>(random.bell(2 * i)) & (buffer == 3 ? 0x7FFFFFFFU : 0xFFFFFFFFU);
}

/// The same, made once: every run starts from them again.
const std::vector<std::uint32_t>& input_bits(std::size_t buffer) {
  static std::map<std::size_t, std::vector<std::uint32_t>> made;
  std::vector<std::uint32_t>& bits = made[buffer];
  for (std::size_t i = bits.size(); i < 2049 + offset_bytes; ++i) bits.push_back(make_bits(buffer, i));
  return bits;
}

/// The buffers of one run, each with its own offset, inside memory that shows writes to neighbours.
class Run {
 public:
  /// Elements first .. first + numel of the operation's data, buffer b starting at element offsets(b).
  template <class Offsets>
  Run(const PositionOperation& op, std::int64_t first, std::int64_t numel, Offsets&& offsets)
      : op_(op), numel_(numel) {
    for (std::size_t b = 0; b < op.buffers.size(); ++b) {
      const std::int64_t width = num_bytes(op.buffers[b].dtype);
      starts_.push_back((margin + offsets(b)) * width);
      const auto bytes = static_cast<std::size_t>((numel + 2 * margin) * width + offset_bytes);
      memory_.emplace_back(bytes + 64, std::byte{0xA5});
      // from a multiple of 64, so that an offset says how an address is aligned
      bases_.push_back((64 - reinterpret_cast<std::uintptr_t>(memory_.back().data()) % 64) % 64);
      if (!op.buffers[b].is_input) continue;
      const std::vector<std::uint32_t>& input = input_bits(b);
      for (std::int64_t i = 0; i < numel; ++i) {
        std::uint32_t bits = input.at(static_cast<std::size_t>(first + i));
        // One NaN in a chunk hides the rest of the sum, so sums get finite values.
        if (!op.elementwise && (bits >> 23 & 0xFFU) == 0xFFU) bits &= 0xFF7FFFFFU;
        if (width < 4) bits ^= bits >> 16;  // narrow elements take the low end, which has to be as mixed
        std::memcpy(data(b) + i * width, &bits, static_cast<std::size_t>(width));
      }
    }
    before_ = memory_;
  }

  void run(const Exec& exec) {
    std::vector<TensorView> views;
    for (std::size_t b = 0; b < op_.buffers.size(); ++b) {
      views.push_back({data(b), op_.buffers[b].dtype, numel_});
    }
    forbid_margins(true);  // reads show nowhere but here
    number_ = op_.run(exec, views);
    forbid_margins(false);
  }

  /// Bits of output b, elements from `first` on.
  const std::byte* output(std::size_t b, std::int64_t first = 0) const {
    return memory_[b].data() + bases_[b] + starts_[b] + first * num_bytes(op_.buffers[b].dtype);
  }
  const std::vector<std::uint64_t>& number() const { return number_; }

  /// True if nothing but the payload of outputs changed.
  bool neighbours_untouched() const {
    for (std::size_t b = 0; b < memory_.size(); ++b) {
      const auto payload = static_cast<std::size_t>(numel_ * num_bytes(op_.buffers[b].dtype));
      const std::size_t begin = bases_[b] + static_cast<std::size_t>(starts_[b]);
      const auto same = [&](std::size_t from, std::size_t to) {
        return std::memcmp(memory_[b].data() + from, before_[b].data() + from, to - from) == 0;
      };
      if (!same(0, begin) || !same(begin + payload, memory_[b].size())) return false;
      if (!op_.buffers[b].is_output && !same(begin, begin + payload)) return false;
    }
    return true;
  }

 private:
  /// Under the address sanitizer nobody may read or write around the payload.
  void forbid_margins([[maybe_unused]] bool forbidden) {
#if defined(ZP_ADDRESS_SANITIZER)
    for (std::size_t b = 0; b < memory_.size(); ++b) {
      std::byte* end = data(b) + numel_ * num_bytes(op_.buffers[b].dtype);
      const auto before = static_cast<std::size_t>(data(b) - memory_[b].data());
      const auto after = static_cast<std::size_t>(memory_[b].data() + memory_[b].size() - end);
      for (const auto& [from, bytes] : {std::pair(memory_[b].data(), before), std::pair(end, after)}) {
        if (forbidden) ASAN_POISON_MEMORY_REGION(from, bytes);
        if (!forbidden) ASAN_UNPOISON_MEMORY_REGION(from, bytes);
      }
    }
#endif
  }

  std::byte* data(std::size_t b) { return memory_[b].data() + bases_[b] + starts_[b]; }

  const PositionOperation& op_;
  std::int64_t numel_;
  std::vector<std::vector<std::byte>> memory_, before_;
  std::vector<std::size_t> bases_;
  std::vector<std::int64_t> starts_;
  std::vector<std::uint64_t> number_;  ///< what the operation returned
};

bool is_nan(DType dtype, std::uint32_t bits) {
  if (dtype == DType::bf16) return (bits & 0x7FFFU) > 0x7F80U;
  if (dtype == DType::fp16) return (bits & 0x7FFFU) > 0x7C00U;
  return (bits & 0x7FFFFFFFU) > 0x7F800000U;
}

/// Elements of the outputs that differ, NaNs being one value (R9).
std::int64_t differing(const PositionOperation& op, const Run& expected, std::int64_t from, const Run& actual,
                       std::int64_t numel) {
  std::int64_t count = 0;
  for (std::size_t b = 0; b < op.buffers.size(); ++b) {
    const DType dtype = op.buffers[b].dtype;
    const auto width = static_cast<std::size_t>(num_bytes(dtype));
    if (!op.buffers[b].is_output) continue;
    for (std::int64_t i = 0; i < numel; ++i) {
      std::uint32_t want = 0, got = 0;
      std::memcpy(&want, expected.output(b, from + i), width);
      std::memcpy(&got, actual.output(b, i), width);
      count += want == got || (is_nan(dtype, want) && is_nan(dtype, got)) ? 0 : 1;
    }
  }
  return count;
}

/// The narrowest elements of an operation have the most places before two vectors are over.
std::int64_t offsets_of(const PositionOperation& op) {
  std::int64_t offsets = 0;
  for (const Buffer& buffer : op.buffers) offsets = std::max(offsets, offset_bytes / num_bytes(buffer.dtype));
  return offsets;
}

Exec exec_of(Isa isa, int threads = 1) {
  Exec exec;
  exec.isa = isa;
  exec.num_threads = threads;
  return exec;
}

/// The offset of buffer b when the narrowest one stands at `offset`: wider elements turn around earlier.
std::int64_t place(const PositionOperation& op, std::size_t b, std::int64_t offset) {
  return offset % (offset_bytes / num_bytes(op.buffers[b].dtype) + 1);
}

struct Count {
  std::int64_t runs = 0, differing = 0, returned = 0, touched = 0;
};

void compare(const PositionOperation& op, const Run& expected, std::int64_t from, Run& actual,
             std::int64_t numel, const Exec& exec, bool same_number, Count& count) {
  actual.run(exec);
  ++count.runs;
  count.differing += differing(op, expected, from, actual, numel);
  if (same_number) count.returned += actual.number() == expected.number() ? 0 : 1;
  count.touched += actual.neighbours_untouched() ? 0 : 1;
}

/// The same data at other addresses: all buffers moved together, and each one alone.
void check_addresses(const PositionOperation& op, std::int64_t numel, Count& count) {
  Run expected(op, 0, numel, [](std::size_t) { return 0; });
  expected.run(exec_of(Isa::x86_64));
  const auto buffers = static_cast<std::int64_t>(op.buffers.size());
  for (const Isa isa : host::supported_isas()) {
    for (std::int64_t offset = 0; offset <= offsets_of(op); ++offset) {
      Run together(op, 0, numel, [&](std::size_t b) { return place(op, b, offset); });
      compare(op, expected, 0, together, numel, exec_of(isa, 1 + static_cast<int>(offset % 2)), true, count);
      const auto moved = static_cast<std::size_t>(offset % buffers);
      Run alone(op, 0, numel, [&](std::size_t b) { return b == moved ? place(op, b, offset) : 0; });
      compare(op, expected, 0, alone, numel, exec_of(isa), true, count);
    }
  }
}

/// A window of a longer buffer, which puts an element of the vector body into the tail and the other way round.
void check_windows(const PositionOperation& op, std::int64_t numel, Count& count) {
  if (!op.elementwise) return;
  const std::int64_t last = offsets_of(op);
  Run whole(op, 0, numel + last, [](std::size_t) { return 0; });
  whole.run(exec_of(Isa::x86_64));
  for (const Isa isa : host::supported_isas()) {
    for (std::int64_t first = 0; first <= last; ++first) {
      Run window(op, first, numel, [&](std::size_t b) { return place(op, b, first); });
      compare(op, whole, first, window, numel, exec_of(isa), false, count);
    }
  }
}

}  // namespace

TEST_CASE(
    "positions: every operation at every offset, length and instruction set gives the bits of offset 0") {
  for (const PositionOperation& op : tests::position_operations()) {
    Count count;
    for (const std::int64_t numel : lengths) {
      check_addresses(op, numel, count);
      check_windows(op, numel, count);
    }
    CAPTURE(op.name);
    CHECK(count.differing == 0);
    CHECK(count.returned == 0);
    CHECK(count.touched == 0);
    CHECK(count.runs > 0);
    std::printf("positions %-22s %6lld runs\n", op.name, static_cast<long long>(count.runs));
  }
}
