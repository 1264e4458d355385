#pragma once
// A disk that fails at its n-th modifying call: the process ends there, or the call fails.

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "common/io/files/disk.hpp"

namespace zeroproof::tests {

enum class Mishap {
  none,
  killed_before,
  killed_after,
  killed_half_written,
  written_short,
  no_space,
  io_error
};

class FaultyDisk : public Disk {
 public:
  FaultyDisk() = default;
  FaultyDisk(Mishap mishap, int at) : mishap_(mishap), at_(at) {}

  int num_calls() const { return calls_; }
  bool happened() const { return calls_ > at_; }

  int make_folder(int folder, const char* name) override {
    return call([&] { return Disk::make_folder(folder, name); });
  }
  int create(int folder, const char* name) override {
    return call([&] { return Disk::create(folder, name); });
  }
  ssize_t write(int file, const void* bytes, std::size_t num_bytes) override {
    if (calls_ == at_ && mishap_ == Mishap::killed_half_written) {
      Disk::write(file, bytes, num_bytes / 2);
      end();
    }
    if (calls_ == at_ && mishap_ == Mishap::written_short && num_bytes > 1) {
      ++calls_;
      return Disk::write(file, bytes, num_bytes / 2);
    }
    return call([&] { return Disk::write(file, bytes, num_bytes); });
  }
  int sync(int file) override {
    return call([&] { return Disk::sync(file); });
  }
  int rename(int folder, const char* from, const char* to) override {
    return call([&] { return Disk::rename(folder, from, to); });
  }
  int exchange(int folder, const char* one, const char* other) override {
    return call([&] { return Disk::exchange(folder, one, other); });
  }
  int remove(int folder, const char* name) override {
    return call([&] { return Disk::remove(folder, name); });
  }
  int remove_folder(int folder, const char* name) override {
    return call([&] { return Disk::remove_folder(folder, name); });
  }

 private:
  [[noreturn]] static void end() {
    ::kill(::getpid(), SIGKILL);
    for (;;) ::pause();
  }

  template <class Call>
  auto call(Call make) -> decltype(make()) {
    const bool now = calls_++ == at_;
    // A full or broken disk stays so.
    const bool broken =
        calls_ > at_ && (mishap_ == Mishap::no_space || mishap_ == Mishap::io_error);
    if (now && mishap_ == Mishap::killed_before) end();
    if (broken) {
      errno = mishap_ == Mishap::no_space ? ENOSPC : EIO;
      return -1;
    }
    const auto result = make();
    if (now && (mishap_ == Mishap::killed_after || mishap_ == Mishap::killed_half_written)) end();
    return result;
  }

  Mishap mishap_ = Mishap::none;
  int at_ = -1;
  int calls_ = 0;
};

}  // namespace zeroproof::tests
