#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>

namespace zeroproof::cuda::sim {

/// A machine with less of it than the simulation could give. All calls hold device_mutex().
struct ScarceMemory {
  static constexpr std::int64_t plenty = std::numeric_limits<std::int64_t>::max();
  std::int64_t device_bytes = plenty;        ///< in use at a time
  std::int64_t pinned_allocations = plenty;  ///< until one is refused
};
ScarceMemory& scarce_memory();

/// The memory of the simulated device: one range of addresses that the host cannot touch. Only while the device works
/// (DeviceWorks) are its pages there. All calls hold device_mutex().
class DeviceMemory {
 public:
  static DeviceMemory& instance();

  /// Between guards that belong to somebody else. Nothing is written yet: start() does that when the device comes to
  /// the allocation. Errors: unavailable if there is not so much.
  unsigned char* reserve(std::int64_t num_bytes);
  /// Guards, and 0xFF bytes (NaN as floats) in between. The device works. Errors: internal if somebody wrote there
  /// since it was released, or before it was there.
  void start(unsigned char* data);
  /// The device works. Errors: internal if its guards were written over and nobody was told; it is released then too.
  void release(unsigned char* data);

  /// Whether an address is one of a byte that is reserved.
  bool has(const void* data) const;

  /// Of what has been reserved and not yet released, as asked for.
  std::int64_t bytes_in_use() const;

  /// Looks at some hundred allocations, each time at the next ones: with thousands of them, at all would take longer
  /// than the work. Errors: internal if a guard was written over. The device works.
  void check_guards();

  void open();
  void close();

 private:
  struct Block {
    std::size_t num_bytes;  ///< as asked for
    std::size_t size;       ///< with guards
    bool fresh;             ///< nobody had it before
    bool started;
    bool reported;  ///< that its guards were written over
  };

  DeviceMemory();
  static bool intact(const unsigned char* data, const Block& block);
  void protect(int rights) const;
  std::size_t find_free(std::size_t size, bool& fresh);

  unsigned char* base_;
  std::size_t used_ = 0;                     // bytes from base_ that were ever given out
  std::map<std::size_t, std::size_t> free_;  // by offset: size, no two neighbours
  std::map<unsigned char*, Block> blocks_;   // by data
  unsigned char* checked_ = nullptr;         // the last one that check_guards() looked at
  int open_ = 0;
};

/// The device works as long as this lives.
class DeviceWorks {
 public:
  DeviceWorks() { DeviceMemory::instance().open(); }
  ~DeviceWorks() { DeviceMemory::instance().close(); }
  DeviceWorks(const DeviceWorks&) = delete;
  DeviceWorks& operator=(const DeviceWorks&) = delete;
};

}  // namespace zeroproof::cuda::sim
