#include "cuda/offload/unnamed_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/base/error.hpp"

namespace zeroproof::cuda {

UnnamedFile::UnnamedFile(std::string folder, std::int64_t num_bytes, std::string content)
    : folder_(std::move(folder)), num_bytes_(num_bytes), content_(std::move(content)) {
  std::error_code none;
  if (folder_.empty()) folder_ = std::filesystem::temp_directory_path(none).string();
  if (num_bytes_ == 0) return;
  std::string path = folder_ + "/zeroproof-offload-XXXXXX";
  file_ = ::mkstemp(path.data());
  if (file_ < 0) refuse("made");
  ::unlink(path.c_str());
  if (::ftruncate(file_, num_bytes_) == 0) return;
  const int error = errno;
  ::close(file_);
  errno = error;
  refuse("mapped");
}

UnnamedFile::~UnnamedFile() {
  if (file_ >= 0) ::close(file_);
}

void UnnamedFile::refuse(const char* what) const {
  fail(
      ErrorCode::io,
      "a file of " + std::to_string(num_bytes_) + " bytes for " + content_ + " in '" + folder_ +
          "' could not be " + what + ": " + std::strerror(errno),
      "the run stops because the state of those elements would be lost; saved checkpoints are "
      "unchanged",
      "free space there, choose another folder (--offload-place file:FOLDER), or offload a smaller "
      "fraction");
}

void UnnamedFile::put(const void* data, std::int64_t num_bytes, std::int64_t at) const {
  put({{const_cast<void*>(data), static_cast<std::size_t>(num_bytes)}}, at);
}

void UnnamedFile::put(std::vector<iovec> pieces, std::int64_t at) const {
  for (auto next = pieces.begin(); next != pieces.end();) {
    if (next->iov_len == 0) {
      ++next;
      continue;
    }
    const ssize_t done = ::pwritev(file_, &*next, static_cast<int>(pieces.end() - next), at);
    if (done < 0 && errno == EINTR) continue;
    if (done == 0) errno = ENOSPC;
    if (done <= 0) refuse("written");
    at += done;
    for (auto left = static_cast<std::size_t>(done); left > 0;) {
      const std::size_t part = std::min(left, next->iov_len);
      next->iov_base = static_cast<std::byte*>(next->iov_base) + part;
      next->iov_len -= part;
      left -= part;
      if (next->iov_len == 0) ++next;
    }
  }
}

}  // namespace zeroproof::cuda
