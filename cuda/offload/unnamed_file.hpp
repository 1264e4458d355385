#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <string>
#include <vector>

namespace zeroproof::cuda {

/// A file that is already unlinked when this is constructed, so it disappears with the process
/// however that ends.
class UnnamedFile {
 public:
  /// folder: "" is the system's temporary folder. content: contents of the file, for errors:
  /// "offloaded state". No file for 0 bytes. Errors: io.
  UnnamedFile(std::string folder, std::int64_t num_bytes, std::string content);
  ~UnnamedFile();
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;

  const std::string& folder() const { return folder_; }
  int descriptor() const { return file_; }
  std::int64_t num_bytes() const { return num_bytes_; }
  /// Writes bytes with system calls: through a mapping a full disk would be a signal. Errors: io.
  void put(const void* data, std::int64_t num_bytes, std::int64_t at) const;
  /// The same for pieces of memory that are consecutive in the file.
  void put(std::vector<iovec> pieces, std::int64_t at) const;
  /// Throws an error with the text of errno. what: the failed operation on the file: "mapped".
  [[noreturn]] void refuse(const char* what) const;

 private:
  std::string folder_;
  std::int64_t num_bytes_;
  std::string content_;
  int file_ = -1;
};

}  // namespace zeroproof::cuda
