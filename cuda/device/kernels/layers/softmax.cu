#include "cuda/device/kernels/layers/elementary_element.cuh"
#include "cuda/device/kernels/layers/ordered_key.cuh"
#include "cuda/device/kernels/layers/row_threads.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/host/layers/layer_checks.hpp"

namespace zeroproof::cuda::device {

namespace {

/// Scores where row i of every [n, n] matrix has columns 0 to i.
struct CausalScores {
  const float* x;
  float scale;

  ZP_DEVICE std::int64_t seen(std::int64_t row, std::int64_t n) const {
    return n == 0 ? 0 : row % n + 1;
  }
  ZP_DEVICE float value(std::int64_t i) const { return scale * x[i]; }
  ZP_DEVICE bool hidden(std::int64_t) const { return false; }
};

struct MaskedScores {
  const float* x;
  const std::uint8_t* mask;
  float scale;

  ZP_DEVICE std::int64_t seen(std::int64_t, std::int64_t n) const { return n; }
  ZP_DEVICE float value(std::int64_t i) const { return mask[i] != 0 ? masked_score : scale * x[i]; }
  ZP_DEVICE bool hidden(std::int64_t i) const { return mask[i] != 0; }
};

/// With one additional score per head, which takes a share of the sum.
struct SinkScores {
  const float* x;
  const float* sink;
  float* sink_share;
  std::int64_t positions, heads;
  float scale;

  ZP_DEVICE std::int64_t seen(std::int64_t, std::int64_t n) const { return n; }
  ZP_DEVICE float value(std::int64_t i) const { return scale * x[i]; }
  ZP_DEVICE bool hidden(std::int64_t) const { return false; }
  ZP_DEVICE float sink_of(std::int64_t row) const { return sink[row / positions % heads]; }
};

/// y holds the exponentials until their sum is complete.
template <class Scores>
struct Softmax {
  static constexpr bool has_sink = requires(Scores scores) { scores.sink; };
  Scores scores;
  float* y;

  ZP_DEVICE void row(const RowThread& thread) const {
    const std::int64_t begin = thread.row * thread.n;
    const std::int64_t seen = scores.seen(thread.row, thread.n);
    float* const out = y + begin;
    std::uint32_t key = 0, open = 0;
    if constexpr (has_sink) key = ordered_key(scores.sink_of(thread.row));
    thread.elements([&](std::int64_t j) {
      if (j >= seen) return;
      const std::uint32_t own = ordered_key(scores.value(begin + j));
      key = own > key ? own : key;
      if (!scores.hidden(begin + j)) open = 1;
    });
    const float m = float_of_key(thread.largest(key));
    const bool empty = thread.largest(open) == 0U;
    thread.elements([&](std::int64_t j) {
      out[j] = j < seen ? elementary_exp_of(scores.value(begin + j) - m) : 0.0F;
    });
    __syncthreads();  // other threads of the row wrote the elements of a block
    float s = thread.sum([&](std::int64_t j) { return out[j]; });
    if constexpr (has_sink) {
      const float k = elementary_exp_of(scores.sink_of(thread.row) - m);
      s = s + k;
      if (thread.here && thread.lane == 0) scores.sink_share[thread.row] = k / s;
    }
    thread.elements([&](std::int64_t j) {
      if (j < seen) out[j] = empty ? 0.0F : out[j] / s;
    });
  }
};

/// Masks of a gradient: masked elements are +0.
struct CausalMask {
  ZP_DEVICE std::int64_t seen(std::int64_t row, std::int64_t n) const {
    return n == 0 ? 0 : row % n + 1;
  }
  ZP_DEVICE bool hidden(std::int64_t) const { return false; }
};

struct GivenMask {
  const std::uint8_t* mask;

  ZP_DEVICE std::int64_t seen(std::int64_t, std::int64_t n) const { return n; }
  ZP_DEVICE bool hidden(std::int64_t i) const { return mask[i] != 0; }
};

struct SinkMask {
  const float* sink_share;  // [rows]
  float* sink_grads;        // [rows]: contribution of each row to the gradient of its head's sink

  ZP_DEVICE std::int64_t seen(std::int64_t, std::int64_t n) const { return n; }
  ZP_DEVICE bool hidden(std::int64_t) const { return false; }
};

template <class Mask>
struct SoftmaxBackward {
  Mask mask;
  const float* dy;
  const float* y;
  float* dx;
  float scale;

  ZP_DEVICE void row(const RowThread& thread) const {
    const std::int64_t begin = thread.row * thread.n;
    const std::int64_t seen = mask.seen(thread.row, thread.n);
    const float s =
        thread.sum([&](std::int64_t j) { return j < seen ? dy[begin + j] * y[begin + j] : 0.0F; });
    thread.elements([&](std::int64_t j) {
      if (j >= seen || mask.hidden(begin + j)) {
        dx[begin + j] = 0.0F;
        return;
      }
      const float a = dy[begin + j] * y[begin + j];
      const float b = y[begin + j] * s;
      const float c = a - b;
      dx[begin + j] = scale * c;
    });
    if constexpr (requires { mask.sink_grads; }) {
      if (thread.here && thread.lane == 0) {
        const float product = mask.sink_share[thread.row] * s;
        mask.sink_grads[thread.row] = flip_sign(product, sign_bit);
      }
    }
  }
};

/// Here a row is a head, and its elements are the rows of the head, batch after batch.
struct HeadSum {
  const float* sink_grads;
  float* d_sink;
  std::int64_t positions, heads;

  ZP_DEVICE void row(const RowThread& thread) const {
    const float sum = thread.sum([&](std::int64_t i) {
      return sink_grads[(i / positions * heads + thread.row) * positions + i % positions];
    });
    if (thread.here && thread.lane == 0) d_sink[thread.row] = sum;
  }
};

/// Memory of one call: later work of the stream may use it, and it is freed after that work.
class RowFloats {
 public:
  explicit RowFloats(std::int64_t numel)
      : data_(numel == 0 ? nullptr
                         : device_allocate(numel * static_cast<std::int64_t>(sizeof(float)))) {}
  ~RowFloats() {
    if (data_ != nullptr) device_release(data_);
  }
  RowFloats(const RowFloats&) = delete;
  RowFloats& operator=(const RowFloats&) = delete;
  float* data() const { return static_cast<float*>(data_); }

 private:
  void* data_;
};

}  // namespace

void causal_softmax(const Exec&, std::int64_t n, float scale, Span<const float> x, Span<float> y) {
  const std::int64_t rows = host::check_causal("causal_softmax", n, x.size(), {{"y", y.size()}});
  run_rows(Softmax<CausalScores>{{x.data(), scale}, y.data()}, rows, n);
}

void causal_softmax_backward(const Exec&, std::int64_t n, float scale, Span<const float> dy,
                             Span<const float> y, Span<float> dx) {
  const std::int64_t rows = host::check_causal("causal_softmax_backward", n, y.size(),
                                               {{"dy", dy.size()}, {"dx", dx.size()}});
  run_rows(SoftmaxBackward<CausalMask>{{}, dy.data(), y.data(), dx.data(), scale}, rows, n);
}

void masked_softmax(const Exec&, std::int64_t n, float scale, Span<const float> x,
                    Span<const std::uint8_t> mask, Span<float> y) {
  const std::int64_t rows =
      host::check_masked("masked_softmax", n, x.size(), {{"mask", mask.size()}, {"y", y.size()}});
  run_rows(Softmax<MaskedScores>{{x.data(), mask.data(), scale}, y.data()}, rows, n);
}

void masked_softmax_backward(const Exec&, std::int64_t n, float scale, Span<const float> dy,
                             Span<const float> y, Span<const std::uint8_t> mask, Span<float> dx) {
  const std::int64_t rows =
      host::check_masked("masked_softmax_backward", n, y.size(),
                         {{"dy", dy.size()}, {"mask", mask.size()}, {"dx", dx.size()}});
  run_rows(SoftmaxBackward<GivenMask>{{mask.data()}, dy.data(), y.data(), dx.data(), scale}, rows,
           n);
}

void sink_softmax(const Exec&, std::int64_t positions, std::int64_t n, float scale,
                  Span<const float> x, Span<const float> sink, Span<float> y,
                  Span<float> sink_share) {
  const std::int64_t rows = host::check_sink("sink_softmax", numel(sink), positions, n, x.size(),
                                             sink_share.size(), {{"y", y.size()}});
  run_rows(
      Softmax<SinkScores>{{x.data(), sink.data(), sink_share.data(), positions, numel(sink), scale},
                          y.data()},
      rows, n);
}

void sink_softmax_backward(const Exec&, std::int64_t positions, std::int64_t n, float scale,
                           Span<const float> dy, Span<const float> y, Span<const float> sink_share,
                           Span<float> dx, Span<float> d_sink) {
  const std::int64_t heads = numel(d_sink);
  const std::int64_t rows =
      host::check_sink("sink_softmax_backward", heads, positions, n, y.size(), sink_share.size(),
                       {{"dy", dy.size()}, {"dx", dx.size()}});
  const RowFloats sink_grads(rows);
  run_rows(
      SoftmaxBackward<SinkMask>{
          {sink_share.data(), sink_grads.data()}, dy.data(), y.data(), dx.data(), scale},
      rows, n);
  run_rows(HeadSum{sink_grads.data(), d_sink.data(), positions, heads}, heads, rows / heads);
}

}  // namespace zeroproof::cuda::device
