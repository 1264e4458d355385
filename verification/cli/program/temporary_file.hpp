#pragma once
// A file in the temporary folder that disappears with its object.

#include <cstdint>
#include <string>
#include <vector>

namespace zeroproof::verification {

class TemporaryFile {
 public:
  /// Empty, in TMPDIR or /tmp. purpose: the reason in the error. Errors: io.
  explicit TemporaryFile(const std::string& purpose);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  std::string content() const;

  /// Replaces the content. Errors: io.
  void write(const std::vector<std::uint8_t>& bytes) const;

 private:
  std::string purpose_;
  std::string path_;
};

}  // namespace zeroproof::verification
