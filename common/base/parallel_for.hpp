#pragma once

#include <cstdint>
#include <functional>

namespace zeroproof {

/// Calls body(i) for every i in [0, count), on up to num_threads threads. Which thread runs which i is not
/// fixed, so body must not depend on it. The first exception (by index) is rethrown after all threads have
/// ended. Errors: invalid_argument if num_threads < 1 or count < 0.
void parallel_for(int num_threads, std::int64_t count,
                  const std::function<void(std::int64_t)>& body);

/// Cores this process may use, at least 1.
int available_cores();

}  // namespace zeroproof
