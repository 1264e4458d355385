#include "verification/tools/train/first_state.hpp"

#include <filesystem>

#include "common/base/error.hpp"

namespace zeroproof::verification {

std::unique_ptr<CheckpointReader> newest_checkpoint(
    const std::string& folder, bool allow_fallback,
    const std::function<void(const std::string&)>& news, Disk& disk) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder, ignored)) return nullptr;
  const CheckpointRoot root(folder, disk);
  const std::vector<std::int64_t> steps = root.steps();
  for (std::size_t i = steps.size(); i-- > 0;) {
    try {
      auto reader = std::make_unique<CheckpointReader>(root, steps[i], disk);
      if (allow_fallback) reader->verify();
      return reader;
    } catch (const Error& error) {
      const bool bad = error.code() == ErrorCode::damaged || error.code() == ErrorCode::io;
      if (!bad) throw;
      if (!allow_fallback || i == 0) {
        if (i == 0) throw;
        throw Error(ErrorCode::damaged,
                    std::string(error.what()) +
                        "; --allow-fallback uses the newest undamaged one, of step " +
                        std::to_string(steps[i - 1]) + " or before");
      }
      news("not used: " + std::string(error.what()));
    }
  }
  return nullptr;
}

}  // namespace zeroproof::verification
