#pragma once
// A file descriptor that is closed by its last owner.

#include <utility>

#include "common/io/files/disk.hpp"

namespace zeroproof {

class OpenFile {
 public:
  OpenFile() = default;
  OpenFile(Disk& disk, int handle) : disk_(&disk), handle_(handle) {}
  OpenFile(OpenFile&& other) noexcept
      : disk_(other.disk_), handle_(std::exchange(other.handle_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(disk_, other.disk_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~OpenFile() {
    if (handle_ >= 0) disk_->close(handle_);
  }

  bool is_open() const { return handle_ >= 0; }
  int handle() const { return handle_; }
  /// As close(2), for written files: some errors are only reported here.
  int close() { return disk_->close(std::exchange(handle_, -1)); }

 private:
  Disk* disk_ = nullptr;
  int handle_ = -1;
};

}  // namespace zeroproof
