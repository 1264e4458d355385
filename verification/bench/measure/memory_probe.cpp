#include "verification/bench/measure/memory_probe.hpp"

#include <algorithm>
#include <chrono>

#include "cuda/host/base/isa.hpp"

namespace zeroproof::verification::bench {

MemoryProbe::MemoryProbe(WorkerTeam& team) : team_(team), loops_(limit_loops(cuda::host::best_isa())) {
  for (const HugeBuffer<float>* buffer : {&sum_, &added_}) std::ranges::fill(buffer->span(), 1.0F);
  seconds();
}

double MemoryProbe::seconds() {
  const auto start = std::chrono::steady_clock::now();
  team_.run(numel, [&](std::int64_t begin, std::int64_t end) {
    loops_.add(0, sum_.data() + begin, added_.data() + begin, end - begin);  // mask 0: the bits stay
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace zeroproof::verification::bench
