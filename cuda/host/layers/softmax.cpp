#include <vector>

#include "cuda/host/base/parallel_units.hpp"
#include "cuda/host/layers/layer_checks.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/simd/layer_kernels.hpp"

namespace zeroproof::cuda::host {

void causal_softmax(const Exec& exec, std::int64_t n, float scale, Span<const float> x,
                    Span<float> y) {
  const std::int64_t rows = check_causal("causal_softmax", n, x.size(), {{"y", y.size()}});
  const LayerKernels& kernels = layer_kernels(exec.isa);
  parallel_units(exec, rows, n, [&](std::int64_t begin, std::int64_t end) {
    kernels.causal_softmax(n, scale, begin, end - begin, x.data() + begin * n,
                           y.data() + begin * n);
  });
}

void causal_softmax_backward(const Exec& exec, std::int64_t n, float scale, Span<const float> dy,
                             Span<const float> y, Span<float> dx) {
  const std::int64_t rows =
      check_causal("causal_softmax_backward", n, y.size(), {{"dy", dy.size()}, {"dx", dx.size()}});
  const LayerKernels& kernels = layer_kernels(exec.isa);
  parallel_units(exec, rows, n, [&](std::int64_t begin, std::int64_t end) {
    kernels.causal_softmax_backward(n, scale, begin, end - begin, dy.data() + begin * n,
                                    y.data() + begin * n, dx.data() + begin * n);
  });
}

void masked_softmax(const Exec& exec, std::int64_t n, float scale, Span<const float> x,
                    Span<const std::uint8_t> mask, Span<float> y) {
  const std::int64_t rows =
      check_masked("masked_softmax", n, x.size(), {{"mask", mask.size()}, {"y", y.size()}});
  const LayerKernels& kernels = layer_kernels(exec.isa);
  parallel_units(exec, rows, n, [&](std::int64_t begin, std::int64_t end) {
    kernels.masked_softmax(n, scale, end - begin, x.data() + begin * n, mask.data() + begin * n,
                           y.data() + begin * n);
  });
}

void masked_softmax_backward(const Exec& exec, std::int64_t n, float scale, Span<const float> dy,
                             Span<const float> y, Span<const std::uint8_t> mask, Span<float> dx) {
  const std::int64_t rows =
      check_masked("masked_softmax_backward", n, y.size(),
                   {{"dy", dy.size()}, {"mask", mask.size()}, {"dx", dx.size()}});
  const LayerKernels& kernels = layer_kernels(exec.isa);
  parallel_units(exec, rows, n, [&](std::int64_t begin, std::int64_t end) {
    kernels.masked_softmax_backward(n, scale, end - begin, dy.data() + begin * n,
                                    y.data() + begin * n, mask.data() + begin * n,
                                    dx.data() + begin * n);
  });
}

namespace {

/// Calls body(row, count, head) for ranges of rows of one head.
template <class Body>
void for_each_head(const Exec& exec, std::int64_t rows, std::int64_t n, std::int64_t positions,
                   std::int64_t heads, const Body& body) {
  parallel_units(exec, rows, n, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t group = begin / positions;
      const std::int64_t stop = std::min((group + 1) * positions, end);
      body(begin, stop - begin, group % heads);
      begin = stop;
    }
  });
}

}  // namespace

void sink_softmax(const Exec& exec, std::int64_t positions, std::int64_t n, float scale,
                  Span<const float> x, Span<const float> sink, Span<float> y,
                  Span<float> sink_share) {
  const std::int64_t heads = numel(sink);
  const std::int64_t rows = check_sink("sink_softmax", heads, positions, n, x.size(),
                                       sink_share.size(), {{"y", y.size()}});
  const LayerKernels& kernels = layer_kernels(exec.isa);
  for_each_head(exec, rows, n, positions, heads,
                [&](std::int64_t row, std::int64_t count, std::int64_t head) {
                  kernels.sink_softmax(n, scale, count, x.data() + row * n, sink.data()[head],
                                       y.data() + row * n, sink_share.data() + row);
                });
}

void sink_softmax_backward(const Exec& exec, std::int64_t positions, std::int64_t n, float scale,
                           Span<const float> dy, Span<const float> y, Span<const float> sink_share,
                           Span<float> dx, Span<float> d_sink) {
  const std::int64_t heads = numel(d_sink);
  const std::int64_t rows = check_sink("sink_softmax_backward", heads, positions, n, y.size(),
                                       sink_share.size(), {{"dy", dy.size()}, {"dx", dx.size()}});
  const LayerKernels& kernels = layer_kernels(exec.isa);
  std::vector<float> sink_grads(sink_share.size());
  for_each_head(exec, rows, n, positions, heads,
                [&](std::int64_t row, std::int64_t count, std::int64_t) {
                  kernels.sink_softmax_backward(n, scale, count, dy.data() + row * n,
                                                y.data() + row * n, sink_share.data() + row,
                                                dx.data() + row * n, sink_grads.data() + row);
                });
  const std::int64_t batches = rows / positions / heads;
  parallel_units(exec, heads, batches * positions, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      d_sink.data()[head] = kernels.sum_of_head(batches, heads, positions, head, sink_grads.data());
    }
  });
}

}  // namespace zeroproof::cuda::host
