#include "verification/cli/program/temporary_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "common/base/error.hpp"
#include "verification/cli/program/file_text.hpp"

namespace zeroproof::verification {

TemporaryFile::TemporaryFile(const std::string& purpose) : purpose_(purpose) {
  const char* folder = std::getenv("TMPDIR");
  path_ = std::string(folder != nullptr && *folder != '\0' ? folder : "/tmp") + "/zeroproof-XXXXXX";
  const int handle = ::mkstemp(path_.data());  // it fills in the six letters
  ZP_CHECK(handle >= 0, ErrorCode::io,
           "no temporary file can be made as " + path_ + ": " + std::strerror(errno), purpose_,
           "set TMPDIR to a folder that can be written");
  ::close(handle);
}

TemporaryFile::~TemporaryFile() { ::unlink(path_.c_str()); }

std::string TemporaryFile::content() const {
  const std::optional<std::string> text = file_text(path_);
  ZP_CHECK(text.has_value(), ErrorCode::io, "temporary file " + path_ + " cannot be read", purpose_,
           "check the disk of TMPDIR");
  return *text;
}

void TemporaryFile::write(const std::vector<std::uint8_t>& bytes) const {
  std::ofstream file(path_, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  ZP_CHECK(file.good(), ErrorCode::io, "temporary file " + path_ + " could not be written",
           purpose_, "free space in TMPDIR");
}

}  // namespace zeroproof::verification
