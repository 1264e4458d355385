#include "common/io/files/replacing_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "common/base/error.hpp"

namespace zeroproof {
namespace {

namespace fs = std::filesystem;

/// The target of a path, with links followed.
std::string target_of(const std::string& path) {
  ZP_CHECK(!path.empty() && path.find('\0') == std::string::npos, ErrorCode::io,
           "a file name is empty or contains a NUL character", "the file cannot be created",
           "use a non-empty name");
  std::error_code error;
  fs::path target(path);
  // Followed here: a link may point to a file that does not exist yet.
  for (int links = 0; fs::is_symlink(fs::symlink_status(target, error)); ++links) {
    const fs::path next = fs::read_symlink(target, error);
    ZP_CHECK(!error && links < 40, ErrorCode::io, path + " is a link without a target",
             "its target would be written", "use the name of the file itself");
    target = target.parent_path() / next;  // an absolute link replaces the folder
  }
  const fs::file_status status = fs::status(target, error);
  ZP_CHECK(!fs::exists(status) || fs::is_regular_file(status), ErrorCode::io,
           path + (fs::is_directory(status) ? " is a directory" : " is not a regular file"),
           "writing would replace it", "use the name of a file");
  return target.string();
}

/// A file without a name, which needs no cleanup; -1 where a file system does not support it.
int open_nameless(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return ::open(folder.empty() ? "." : folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
}

/// Calls make(name) with names next to `path` until one can be created; returns its result.
template <class Make>
int at_free_name(const std::string& path, std::string& name, const Make& make) {
  static std::atomic<unsigned> counter{0};
  const fs::path folder = fs::path(path).parent_path();
  for (int attempt = 0; attempt < 1000; ++attempt) {
    name =
        (folder / (".zp-" + std::to_string(::getpid()) + "-" + std::to_string(++counter) + ".part"))
            .string();
    const int result = make(name.c_str());
    if (result >= 0 || errno != EEXIST) return result;
  }
  return -1;
}

/// Opens a new file next to `path`; unlike mkstemp, with the permissions the user's umask gives new files.
int open_temporary(const std::string& path, std::string& temporary) {
  const int nameless = open_nameless(path);
  if (nameless >= 0) return nameless;
  const int handle = at_free_name(path, temporary, [](const char* name) {
    return ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  });
  if (handle < 0) temporary.clear();
  return handle;
}

/// Links a file without a name to a name; a rename needs it, and only a rename replaces.
bool give_name(int handle, const std::string& path, std::string& temporary) {
  const std::string open_file = "/proc/self/fd/" + std::to_string(handle);
  const int linked = at_free_name(path, temporary, [&](const char* name) {
    return ::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW);
  });
  if (linked != 0) temporary.clear();
  return linked == 0;
}

}  // namespace

ReplacingFile::ReplacingFile(const std::string& path) : path_(target_of(path)) {
  handle_ = open_temporary(path_, temporary_);
  ZP_CHECK(handle_ >= 0, ErrorCode::io, path_ + " cannot be written: " + std::strerror(errno),
           "a temporary file next to it is filled first", "use a file in a writable folder");
}

ReplacingFile::~ReplacingFile() {
  if (handle_ >= 0) ::close(handle_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void ReplacingFile::write(std::int64_t offset, Span<const std::byte> bytes) {
  constexpr std::size_t most = std::size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(handle_, bytes.data(), std::min(most, bytes.size()), offset);
    if (count < 0 && errno == EINTR) continue;
    ZP_CHECK(count > 0, ErrorCode::io,
             path_ + " cannot be written at byte " + std::to_string(offset) + ": " +
                 (count < 0 ? std::strerror(errno) : "nothing was written"),
             "the file would be incomplete and is not kept", "check the free space and run again");
    offset += count;
    bytes = bytes.subspan(count);
  }
}

void ReplacingFile::commit() {
  const bool synced =
      ::fsync(handle_) == 0 && (!temporary_.empty() || give_name(handle_, path_, temporary_));
  const int sync_error = errno;
  const bool closed = ::close(handle_) == 0;
  handle_ = -1;
  ZP_CHECK(synced && closed, ErrorCode::io,
           path_ + " cannot be written: " + std::strerror(synced ? errno : sync_error),
           "the file may be incomplete and is not kept", "check the disk and run again");
  ZP_CHECK(std::rename(temporary_.c_str(), path_.c_str()) == 0, ErrorCode::io,
           path_ + " cannot be replaced: " + std::strerror(errno),
           "the complete file has another name until then", "check the permissions of the folder");
  temporary_.clear();
}

}  // namespace zeroproof
