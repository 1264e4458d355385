#include "verification/cli/program/spare_files.hpp"

#include <sys/resource.h>

#include <algorithm>

#include "verification/cli/program/folder_names.hpp"

namespace zeroproof::verification {

std::int64_t spare_files() {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  const auto open = names_in("/proc/self/fd");
  if (!open) return 1;
  const auto most = static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, 1U << 20));
  return std::max<std::int64_t>((most - static_cast<std::int64_t>(open->size())) / 2, 1);
}

void raise_file_limit() {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // what a system refuses stays as it was
}

}  // namespace zeroproof::verification
