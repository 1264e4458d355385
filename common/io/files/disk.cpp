#include "common/io/files/disk.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>

namespace zeroproof {
namespace {

template <class Call>
auto again_if_interrupted(Call call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace

int Disk::open_root(const char* path) {
  return again_if_interrupted([&] { return ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
}

int Disk::open_folder(int folder, const char* name) {
  constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  return again_if_interrupted([&] { return ::openat(folder, name, flags); });
}

int Disk::make_folder(int folder, const char* name) { return ::mkdirat(folder, name, 0777); }

int Disk::create(int folder, const char* name) {
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  return again_if_interrupted([&] { return ::openat(folder, name, flags, 0666); });
}

int Disk::open(int folder, const char* name) {
  // Opening a pipe of that name would block.
  constexpr int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  return again_if_interrupted([&] { return ::openat(folder, name, flags); });
}

ssize_t Disk::write(int file, const void* bytes, std::size_t num_bytes) {
  return again_if_interrupted([&] { return ::write(file, bytes, num_bytes); });
}

ssize_t Disk::read(int file, void* bytes, std::size_t num_bytes, off_t offset) {
  return again_if_interrupted([&] { return ::pread(file, bytes, num_bytes, offset); });
}

bool Disk::set_direct(int file, bool on) {
  const int flags = ::fcntl(file, F_GETFL);
  return flags >= 0 && ::fcntl(file, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

// A failed sync is final: the system drops the unwritten data, and another sync would succeed
// without them.
int Disk::sync(int file) { return ::fsync(file); }

int Disk::close(int file) { return ::close(file); }

int Disk::rename(int folder, const char* from, const char* to) {
  return ::renameat(folder, from, folder, to);
}

int Disk::exchange(int folder, const char* one, const char* other) {
  return ::renameat2(folder, one, folder, other, RENAME_EXCHANGE);
}

int Disk::remove(int folder, const char* name) { return ::unlinkat(folder, name, 0); }

int Disk::remove_folder(int folder, const char* name) {
  return ::unlinkat(folder, name, AT_REMOVEDIR);
}

std::optional<std::vector<std::string>> Disk::list(int folder) {
  const int handle =
      ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // its own read position
  if (handle < 0) return std::nullopt;
  const auto close_stream = [](DIR* stream) { ::closedir(stream); };
  std::unique_ptr<DIR, decltype(close_stream)> stream(::fdopendir(handle), close_stream);
  if (!stream) {
    ::close(handle);
    return std::nullopt;
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  const int error = errno;
  stream.reset();
  errno = error;
  if (error != 0) return std::nullopt;
  std::sort(names.begin(), names.end());
  return names;
}

Disk& system_disk() {
  static Disk disk;
  return disk;
}

}  // namespace zeroproof
