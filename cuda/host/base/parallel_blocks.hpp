#pragma once
// OpenMP work sharing of the host implementations. Blocks are fixed; their assignment to threads
// does not affect the result.

#include <algorithm>
#include <cstdint>

#include "common/base/error.hpp"
#include "common/base/exec.hpp"
#include "common/base/fpenv.hpp"

namespace zeroproof::cuda::host {

/// Elements per block: a multiple of the norm's chunk, 64 KiB of fp32.
inline constexpr std::int64_t block_numel = 16384;

/// Calls body(begin, end, sum) for every block of [0, numel), on exec.num_threads threads, and
/// merge(sum, into) for the sum of each worker, one worker at a time; a single thread adds to
/// `into` directly. Every worker checks its floating-point environment first (R3); a worker with a
/// wrong one computes nothing and the call throws.
template <class Sum, class Body, class Merge>
void parallel_sum(const Exec& exec, std::int64_t numel, Sum& into, const Body& body,
                  const Merge& merge) {
  const std::int64_t blocks = (numel + block_numel - 1) / block_numel;
  const int threads =
      static_cast<int>(std::min<std::int64_t>(std::max(exec.num_threads, 1), blocks));
  if (threads <= 1) {
    if (!fp_environment_ok()) require_fp_environment("host worker 0");
    for (std::int64_t begin = 0; begin < numel; begin += block_numel)
      body(begin, std::min(begin + block_numel, numel), into);
    return;
  }
  bool wrong = false;
#pragma omp parallel num_threads(threads) reduction(|| : wrong)
  {
    const bool ok = fp_environment_ok();
    wrong = !ok;
    Sum sum{};
#pragma omp for schedule(static)
    for (std::int64_t block = 0; block < blocks; ++block) {
      if (ok) body(block * block_numel, std::min((block + 1) * block_numel, numel), sum);
    }
#pragma omp critical(zeroproof_parallel_sum)
    merge(sum, into);
  }
  ZP_CHECK(!wrong, ErrorCode::fp_environment,
           "a host worker thread has a changed floating-point environment",
           "OpenMP threads keep a state changed by another library, and rule R3 "
           "forbids that",
           "look for a library built with -Ofast or -ffast-math in this process");
}

/// The same without a sum: body(begin, end).
template <class Body>
void parallel_blocks(const Exec& exec, std::int64_t numel, const Body& body) {
  struct Nothing {
  } nothing;
  parallel_sum(
      exec, numel, nothing,
      [&](std::int64_t begin, std::int64_t end, Nothing&) { body(begin, end); },
      [](const Nothing&, Nothing&) {});
}

}  // namespace zeroproof::cuda::host
