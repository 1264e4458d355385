#pragma once
// A disk that is full or slow for a limited time.

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "common/io/files/disk.hpp"

namespace zeroproof::tests {

class TroubledDisk : public Disk {
 public:
  std::atomic<bool> full{false}, waits{false};
  std::atomic<int> writers{0}, most_writers{0};

  ssize_t write(int file, const void* bytes, std::size_t num_bytes) override {
    const int now = ++writers;
    int most = most_writers;
    while (most < now && !most_writers.compare_exchange_weak(most, now)) {
    }
    while (waits) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    --writers;
    errno = ENOSPC;
    return full ? -1 : Disk::write(file, bytes, num_bytes);
  }
};

}  // namespace zeroproof::tests
