#pragma once
// Disks with special behaviour: direct writes, short writes, and full disks.

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "common/io/files/disk.hpp"

namespace zeroproof::tests {

enum class Cache { as_it_is, refused, meant_no };

/// Support of direct writes by a file system.
class ParticularDisk final : public Disk {
 public:
  explicit ParticularDisk(Cache cache, std::size_t most = ~std::size_t{0})
      : cache_(cache), most_(most) {}

  bool set_direct(int file, bool on) override {
    if (cache_ == Cache::refused) return false;
    direct_ = cache_ == Cache::meant_no ? on : Disk::set_direct(file, on) && on;
    return direct_ == on;
  }
  ssize_t write(int file, const void* bytes, std::size_t num_bytes) override {
    if (direct_ && (reinterpret_cast<std::uintptr_t>(bytes) % 4096 != 0 || num_bytes % 4096 != 0)) {
      ++crooked;
      errno = EINVAL;
      return -1;
    }
    if (direct_ && cache_ == Cache::meant_no) {
      errno = EINVAL;
      return -1;
    }
    ++(direct_ ? past : through);
    return Disk::write(file, bytes, std::min(num_bytes, most_));
  }

  int past = 0, through = 0, crooked = 0;

 private:
  Cache cache_;
  std::size_t most_;
  bool direct_ = false;
};

/// All further writes fail too: it stays full, or writes nothing.
class FullDisk final : public Disk {
 public:
  FullDisk(int at, int error) : at_(at), error_(error) {}
  ssize_t write(int file, const void* bytes, std::size_t num_bytes) override {
    if (calls_++ < at_) return Disk::write(file, bytes, num_bytes);
    errno = error_;
    return error_ == 0 ? 0 : -1;
  }

 private:
  int at_, error_;
  int calls_ = 0;
};

}  // namespace zeroproof::tests
