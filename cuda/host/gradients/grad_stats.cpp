#include <algorithm>
#include <vector>

#include "cuda/host/base/piece_loop.hpp"
#include "cuda/host/gradients/grad_segments.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {

void grad_stats(const Exec& exec, Span<const float> grad, Span<const GradSegment> segments,
                Span<GradStats> stats) {
  require_segments(segments, numel(grad), numel(stats));
  std::vector<Piece> pieces;
  for (const GradSegment& segment : segments) {
    if (segment.numel > 0)
      pieces.push_back({segment.tensor, 0, segment.begin, segment.begin, segment.numel});
  }
  const PieceLoop loop(pieces);
  const Span<const Piece> blocks = loop.blocks();
  const SimdKernels& kernels = simd_kernels(exec.isa);
  std::vector<MagnitudeCounts> found(blocks.size());
  loop.run(exec, [&](const Exec&, const Piece& block) {
    found[&block - blocks.data()] =
        kernels.count_magnitudes(grad.data() + block.local_begin, block.numel);
  });
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    GradStats& tensor = stats[blocks[i].tensor];
    tensor.amax = std::max(tensor.amax, found[i].amax);
    tensor.num_nonfinite += found[i].num_nonfinite;
    tensor.num_zeros += found[i].num_zeros;
  }
}

}  // namespace zeroproof::cuda::host
