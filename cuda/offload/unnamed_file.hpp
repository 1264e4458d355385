#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <string>
#include <vector>

namespace zeroproof::cuda {

/// A file that has no name any more when this is made: it goes with the process, in whatever way that ends.
class UnnamedFile {
 public:
  /// folder: "" is the system's temporary one. content: what will be in it, for errors: "offloaded state". None at all
  /// for 0 bytes. Errors: io.
  UnnamedFile(std::string folder, std::int64_t num_bytes, std::string content);
  ~UnnamedFile();
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;

  const std::string& folder() const { return folder_; }
  int descriptor() const { return file_; }
  std::int64_t num_bytes() const { return num_bytes_; }
  /// Writes bytes there, by calls: through a mapping a full disk would be a signal. Errors: io.
  void put(const void* data, std::int64_t num_bytes, std::int64_t at) const;
  /// The same for pieces of memory that come one after another there.
  void put(std::vector<iovec> pieces, std::int64_t at) const;
  /// Throws the error that errno is. what: was to be done with the file: "mapped".
  [[noreturn]] void refuse(const char* what) const;

 private:
  std::string folder_;
  std::int64_t num_bytes_;
  std::string content_;
  int file_ = -1;
};

}  // namespace zeroproof::cuda
