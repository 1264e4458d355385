#include "verification/cli/program/temporary_folder.hpp"

#include <stdlib.h>  // mkdtemp

#include <cstdlib>
#include <filesystem>

#include "common/base/error.hpp"

namespace zeroproof::verification {

TemporaryFolder::TemporaryFolder(const std::string& purpose) {
  const char* folder = std::getenv("TMPDIR");
  path_ = std::string(folder != nullptr && *folder != '\0' ? folder : "/tmp") + "/zeroproof-XXXXXX";
  // It fills in the six letters.
  ZP_CHECK(::mkdtemp(path_.data()) != nullptr, ErrorCode::io,
           "no temporary folder can be made as " + path_, purpose,
           "set TMPDIR to a folder that can be written");
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace zeroproof::verification
