#pragma once
// A folder in the temporary folder that disappears with its object, and everything in it.

#include <string>

namespace zeroproof::verification {

class TemporaryFolder {
 public:
  /// Empty, in TMPDIR or /tmp. purpose: the reason in the error. Errors: io.
  explicit TemporaryFolder(const std::string& purpose);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace zeroproof::verification
