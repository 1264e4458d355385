#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>

namespace zeroproof::cuda::sim {

/// Limits below the memory of the simulation, for tests. All calls hold device_mutex().
struct ScarceMemory {
  static constexpr std::int64_t plenty = std::numeric_limits<std::int64_t>::max();
  std::int64_t device_bytes = plenty;        ///< in use at a time
  std::int64_t pinned_allocations = plenty;  ///< number of allocations that succeed
};
ScarceMemory& scarce_memory();

/// The memory of the simulated device: one range of addresses that the host cannot access. Its
/// pages are accessible only while the device works (DeviceWorks). All calls hold device_mutex().
class DeviceMemory {
 public:
  static DeviceMemory& instance();

  /// Reserves memory between guard bytes. Writes nothing: start() does when the device executes the
  /// allocation. Errors: unavailable if there is too little.
  unsigned char* reserve(std::int64_t num_bytes);
  /// Fills the guards, and the block between them with 0xFF bytes (NaN as floats). The device
  /// works. Errors: internal if the memory was written after its release or before its allocation.
  void start(unsigned char* data);
  /// The device works. Errors: internal if its guards were overwritten and this was not yet
  /// reported; the memory is released then too.
  void release(unsigned char* data);

  /// Whether an address belongs to a reserved byte.
  bool has(const void* data) const;

  /// Requested bytes that are reserved and not yet released.
  std::int64_t bytes_in_use() const;

  /// Checks some hundred allocations, the next ones in each call: with thousands of them, checking
  /// all would take longer than the work. Errors: internal if a guard was overwritten. The device
  /// works.
  void check_guards();

  void open();
  void close();

 private:
  struct Block {
    std::size_t num_bytes;  ///< requested size
    std::size_t size;       ///< with guards
    bool fresh;             ///< never used before
    bool started;
    bool reported;  ///< a guard error was reported
  };

  DeviceMemory();
  static bool intact(const unsigned char* data, const Block& block);
  void protect(int rights) const;
  std::size_t find_free(std::size_t size, bool& fresh);

  unsigned char* base_;
  std::size_t used_ = 0;                     // bytes from base_ that were ever in use
  std::map<std::size_t, std::size_t> free_;  // by offset: size; no two are adjacent
  std::map<unsigned char*, Block> blocks_;   // by data
  unsigned char* checked_ = nullptr;         // the last block that check_guards() checked
  int open_ = 0;
};

/// The device works while this object exists.
class DeviceWorks {
 public:
  DeviceWorks() { DeviceMemory::instance().open(); }
  ~DeviceWorks() { DeviceMemory::instance().close(); }
  DeviceWorks(const DeviceWorks&) = delete;
  DeviceWorks& operator=(const DeviceWorks&) = delete;
};

}  // namespace zeroproof::cuda::sim
