#include <algorithm>
#include <array>

#include "cuda/host/operations.hpp"
#include "cuda/host/update/run_update.hpp"

namespace zeroproof::cuda::host {
namespace {

/// Elements that are in fp32 at a time: they stay in the first cache.
constexpr std::int64_t bf16_tile_numel = 1024;

}  // namespace

void run_bf16_update(const Exec& exec, const UpdateForm& form, bool maximize,
                     const StepScalars& scalars, Span<const bf16> grad, Span<bf16> master,
                     const PerSlot<float*>& slots) {
  parallel_blocks(exec, numel(grad), [&](std::int64_t begin, std::int64_t end) {
    const Exec serial{1, exec.isa};
    std::array<float, bf16_tile_numel> g, p;
    for (std::int64_t at = begin; at < end; at += bf16_tile_numel) {
      const std::int64_t count = std::min(bf16_tile_numel, end - at);
      const Span<float> tile_g(g.data(), static_cast<std::size_t>(count));
      const Span<float> tile_p(p.data(), static_cast<std::size_t>(count));
      const Span<bf16> tile_master = master.subspan(at, count);
      widen_bf16(serial, grad.subspan(at, count), tile_g);
      widen_bf16(serial, tile_master, tile_p);
      UpdateBuffers tile = from_element({nullptr, nullptr, slots}, at);
      tile.grad = g.data();
      tile.master = p.data();
      run_update(serial, form, maximize, scalars, tile, count);
      cast_to_bf16(serial, tile_p, tile_master);
    }
  });
}

}  // namespace zeroproof::cuda::host
