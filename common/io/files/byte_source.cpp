#include "common/io/files/byte_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/error.hpp"

namespace zeroproof {
namespace {

/// Closes the handle unless release() took it.
class Handle {
 public:
  explicit Handle(int handle) : handle_(handle) {}
  ~Handle() {
    if (handle_ >= 0) ::close(handle_);
  }
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}
  Handle& operator=(Handle&&) = delete;
  int get() const { return handle_; }

 private:
  int handle_;
};

class FileSource final : public ByteSource {
 public:
  FileSource(const std::string& path, Handle handle, std::uint64_t size)
      : ByteSource(path, size), handle_(std::move(handle)) {}

  void read(std::uint64_t offset, Span<std::byte> target) const override {
    constexpr std::size_t most = std::size_t{1}
                                 << 30;  // Linux reads at most 2^31 - 4096 bytes at once
    while (!target.empty()) {
      const ssize_t count = ::pread(handle_.get(), target.data(), std::min(most, target.size()),
                                    static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      ZP_CHECK(count >= 0, ErrorCode::io,
               label() + " cannot be read at byte " + std::to_string(offset) + ": " +
                   std::strerror(errno),
               "its content is needed", "check the disk and run again");
      ZP_CHECK(count > 0, ErrorCode::io,
               label() + " ends at byte " + std::to_string(offset) + " but had " +
                   std::to_string(size()) + " bytes when it was opened",
               "another process shortened it while it was being read",
               "let the writer finish and run again");
      offset += static_cast<std::uint64_t>(count);
      target = target.subspan(count);
    }
  }

 private:
  Handle handle_;
};

class MemorySource final : public ByteSource {
 public:
  MemorySource(Span<const std::byte> bytes, std::string label)
      : ByteSource(std::move(label), bytes.size()), bytes_(bytes) {}

  void read(std::uint64_t offset, Span<std::byte> target) const override {
    ZP_CHECK(offset <= bytes_.size() && target.size() <= bytes_.size() - offset, ErrorCode::io,
             label() + " has " + std::to_string(bytes_.size()) + " bytes, fewer than requested",
             "a tensor would be read past the end", "use ranges inside of it");
    if (!target.empty()) std::memcpy(target.data(), bytes_.data() + offset, target.size());
  }

 private:
  Span<const std::byte> bytes_;
};

}  // namespace

std::unique_ptr<ByteSource> open_file_source(const std::string& path) {
  ZP_CHECK(path.find('\0') == std::string::npos, ErrorCode::io,
           "a file name contains a NUL character", "the system would open another file",
           "remove it from the name");
  // O_NONBLOCK: opening a pipe without a writer must not wait.
  Handle handle(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  ZP_CHECK(handle.get() >= 0, ErrorCode::io, path + " cannot be opened: " + std::strerror(errno),
           "its content is needed", "check the path and its permissions");
  struct stat status {};
  ZP_CHECK(::fstat(handle.get(), &status) == 0, ErrorCode::io, path + " cannot be examined",
           "its size must be known", "check the disk");
  ZP_CHECK(S_ISREG(status.st_mode), ErrorCode::io,
           path + (S_ISDIR(status.st_mode) ? " is a directory" : " is not a regular file"),
           "tensors are read at positions in a file", "use a safetensors file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  return std::make_unique<FileSource>(path, std::move(handle), size);
}

std::unique_ptr<ByteSource> memory_source(Span<const std::byte> bytes, std::string label) {
  return std::make_unique<MemorySource>(bytes, std::move(label));
}

std::string read_small_file(const std::string& path, std::uint64_t most_bytes) {
  const auto source = open_file_source(path);
  ZP_CHECK(source->size() <= most_bytes, ErrorCode::io,
           path + " has " + std::to_string(source->size()) + " bytes",
           "the expected file has at most " + std::to_string(most_bytes), "check the file name");
  std::string text(source->size(), '\0');
  source->read(0, std::as_writable_bytes(Span<char>(text)));
  return text;
}

}  // namespace zeroproof
