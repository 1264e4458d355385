#include "verification/bench/data.hpp"

#include <algorithm>
#include <cstring>

#include "common/base/philox.hpp"
#include "cuda/host/step_scalars.hpp"

namespace zeroproof::verification::bench {
namespace {

/// Uniform in [low, high), from one counter per four elements; each thread touches the pages it will work on.
void fill(WorkerTeam& team, const HugeBuffer<float>& buffer, std::uint32_t stream, float low, float high) {
  float* out = buffer.data();
  team.run(numel(buffer.span()), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += 4) {
      const auto counter = static_cast<std::uint32_t>(i / 4);
      const PhiloxBlock words = philox4x32({counter, 0, stream, 0}, 1);
      for (std::int64_t k = 0; k < 4; ++k) {
        const float uniform = static_cast<float>(words[static_cast<std::size_t>(k)] >> 8) * 0x1p-24F;
        out[i + k] = low + (high - low) * uniform;
      }
    }
  });
}

template <class T>
void copy(WorkerTeam& team, const HugeBuffer<T>& from, const HugeBuffer<T>& to) {
  team.run(numel(to.span()), [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(end - begin) * sizeof(T));
  });
}

void copy(WorkerTeam& team, const State& from, const State& to) {
  copy(team, from.master, to.master);
  copy(team, from.exp_avg, to.exp_avg);
  copy(team, from.exp_avg_sq, to.exp_avg_sq);
}

template <class T>
void touch(WorkerTeam& team, const HugeBuffer<T>& buffer) {
  team.run(numel(buffer.span()), [&](std::int64_t begin, std::int64_t end) {
    std::memset(buffer.data() + begin, 0xFF, static_cast<std::size_t>(end - begin) * sizeof(T));
  });
}

}  // namespace

Data::Data(std::int64_t count, WorkerTeam& team)
    : numel(count),
      slice_numel(std::max(work_block, count / 8 / work_block * work_block)),
      // Loss scale 2^10 and three micro-batches: 1/3072 is not a power of two, so unscaling rounds.
      scalars(cuda::host::step_scalars(hyper, 10, 10, 3)),
      grad_sum(count),
      work_grad(count),
      half(count),
      bytes(count),
      rules(count),
      max_exp_avg_sq(count),
      threads(count),
      fused(count),
      seven(count),
      fused_param(count),
      seven_param(count),
      serial(slice_numel),
      reference(slice_numel) {
  fill(team, grad_sum, 1, -30.0F,
       30.0F);  // unscaled: up to 0.01, and a norm far above max_norm, so clipping acts
  fill(team, threads.master, 2, -0.1F, 0.1F);
  fill(team, threads.exp_avg, 3, -0.01F, 0.01F);
  fill(team, threads.exp_avg_sq, 4, 1e-6F, 1e-4F);
  copy(team, grad_sum, work_grad);
  for (const State* state : {&rules, &fused, &seven, &serial, &reference}) copy(team, threads, *state);
  copy(team, threads.exp_avg_sq, max_exp_avg_sq);
  touch(team, bytes);
  for (const auto* buffer : {&half, &fused_param, &seven_param}) touch(team, *buffer);
}

}  // namespace zeroproof::verification::bench
