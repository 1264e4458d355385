// Softmax and norms, and their gradients, compared with their formulas.

#include "cuda/host/operations.hpp"
#include "verification/bench/research/errors/batch.hpp"

namespace zeroproof::errors {
namespace {

namespace h = cuda::host;

constexpr std::int64_t n = 48, rows = 96, elements = n * rows;  // two square matrices
constexpr std::int64_t positions = 8, heads = 3;                // 4 batches of 3 heads
constexpr float scale = 0.7F, eps = 1e-5F;

std::size_t at(std::int64_t r, std::int64_t j) { return static_cast<std::size_t>(r * n + j); }
std::size_t at(std::int64_t r) { return static_cast<std::size_t>(r); }

Bounded mean_of(const Bounded& total) { return total / given(static_cast<float>(n)); }

// [Fusion:softmax]

/// Scaled scores of a row, and the computed maximum. The quotients do not depend on the subtracted
/// number.
struct Scores {
  std::vector<Bounded> v;
  float largest;

  Scores(const std::vector<float>& x, std::int64_t r, std::int64_t seen) {
    for (std::int64_t j = 0; j < seen; ++j) v.push_back(given(scale) * given(x[at(r, j)]));
    largest = scale * x[at(r, 0)];
    for (std::int64_t j = 1; j < seen; ++j) largest = std::max(largest, scale * x[at(r, j)]);
  }
  std::int64_t size() const { return static_cast<std::int64_t>(v.size()); }
  std::vector<Bounded> exponentials() const {
    std::vector<Bounded> e;
    for (const Bounded& one : v) e.push_back(exp(one - given(largest)));
    return e;
  }
};

/// In blocks of n terms; terms from `seen` on are +0.
Bounded row_sum(const std::vector<Bounded>& terms) {
  return sum(n, [&](std::int64_t j) {
    return j < static_cast<std::int64_t>(terms.size()) ? terms[at(j)] : Bounded{};
  });
}

/// Which scores of a row are masked in these calls.
bool masked(std::int64_t r, std::int64_t j) { return (r + 3 * j) % 5 == 0; }

void causal_softmax(Batch& batch) {
  const std::vector<float> x = batch.numbers(elements);
  std::vector<float> y(elements);
  h::causal_softmax(batch.exec, n, scale, x, y);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::vector<Bounded> e = Scores(x, r, r % n + 1).exponentials();
    const Bounded s = row_sum(e);
    for (std::size_t j = 0; j < e.size(); ++j) batch.of("y").look(e[j] / s, y[at(r, 0) + j]);
  }
}

void masked_softmax(Batch& batch) {
  const std::vector<float> x = batch.numbers(elements);
  std::vector<float> y(elements);
  std::vector<std::uint8_t> mask(elements);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < n; ++j) mask[at(r, j)] = masked(r, j) ? 1 : 0;
  }
  h::masked_softmax(batch.exec, n, scale, x, mask, y);
  for (std::int64_t r = 0; r < rows; ++r) {
    Scores scores(x, r, n);
    float largest = masked_score;
    for (std::int64_t j = 0; j < n; ++j) {
      if (masked(r, j)) scores.v[at(j)] = given(masked_score);
      if (!masked(r, j)) largest = std::max(largest, scale * x[at(r, j)]);
    }
    scores.largest = largest;
    const std::vector<Bounded> e = scores.exponentials();
    const Bounded s = row_sum(e);
    for (std::int64_t j = 0; j < n; ++j) batch.of("y").look(e[at(j)] / s, y[at(r, j)]);
  }
}

void sink_softmax(Batch& batch) {
  const std::vector<float> x = batch.numbers(elements), sink = batch.numbers(heads);
  std::vector<float> y(elements), share(rows);
  h::sink_softmax(batch.exec, positions, n, scale, x, sink, y, share);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float of_head = sink[at(r / positions % heads)];
    Scores scores(x, r, n);
    scores.largest = std::max(scores.largest, of_head);
    const std::vector<Bounded> e = scores.exponentials();
    const Bounded k = exp(given(of_head) - given(scores.largest));
    const Bounded s = row_sum(e) + k;
    for (std::int64_t j = 0; j < n; ++j) batch.of("y").look(e[at(j)] / s, y[at(r, j)]);
    batch.of("sink_share").look(k / s, share[at(r)]);
  }
}

// [Fusion:softmax_backward]

/// d loss / d scores of a row whose first `seen` shares count, and the sum in it.
template <class Look>
Bounded slopes(const std::vector<float>& dy, const std::vector<float>& y, std::int64_t r,
               std::int64_t seen, const Look& look) {
  std::vector<Bounded> a;
  for (std::int64_t j = 0; j < seen; ++j) a.push_back(given(dy[at(r, j)]) * given(y[at(r, j)]));
  const Bounded s = row_sum(a);
  for (std::int64_t j = 0; j < seen; ++j) {
    look(j, given(scale) * (a[at(j)] - given(y[at(r, j)]) * s));
  }
  return s;
}

void causal_softmax_backward(Batch& batch) {
  const std::vector<float> dy = batch.numbers(elements), y = batch.positive(elements, -10, 0);
  std::vector<float> dx(elements);
  h::causal_softmax_backward(batch.exec, n, scale, dy, y, dx);
  for (std::int64_t r = 0; r < rows; ++r) {
    slopes(dy, y, r, r % n + 1,
           [&](std::int64_t j, const Bounded& d) { batch.of("dx").look(d, dx[at(r, j)]); });
  }
}

void masked_softmax_backward(Batch& batch) {
  const std::vector<float> dy = batch.numbers(elements), y = batch.positive(elements, -10, 0);
  std::vector<float> dx(elements);
  std::vector<std::uint8_t> mask(elements);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < n; ++j) mask[at(r, j)] = masked(r, j) ? 1 : 0;
  }
  h::masked_softmax_backward(batch.exec, n, scale, dy, y, mask, dx);
  for (std::int64_t r = 0; r < rows; ++r) {
    slopes(dy, y, r, n, [&](std::int64_t j, const Bounded& d) {
      batch.of("dx").look(masked(r, j) ? Bounded{} : d, dx[at(r, j)]);
    });
  }
}

void sink_softmax_backward(Batch& batch) {
  const std::vector<float> dy = batch.numbers(elements), y = batch.positive(elements, -10, 0);
  const std::vector<float> share = batch.positive(rows, -10, 0);
  std::vector<float> dx(elements), d_sink(heads);
  h::sink_softmax_backward(batch.exec, positions, n, scale, dy, y, share, dx, d_sink);
  std::vector<std::vector<Bounded>> z(heads);
  for (std::int64_t r = 0; r < rows; ++r) {
    const Bounded s = slopes(dy, y, r, n, [&](std::int64_t j, const Bounded& d) {
      batch.of("dx").look(d, dx[at(r, j)]);
    });
    const Bounded product = given(share[at(r)]) * s;
    z[at(r / positions % heads)].push_back({-product.value, product.error});
  }
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::vector<Bounded>& terms = z[at(head)];
    batch.of("d_sink").look(
        sum(static_cast<std::int64_t>(terms.size()), [&](std::int64_t i) { return terms[at(i)]; }),
        d_sink[at(head)]);
  }
}

// [Fusion:rms], [Fusion:layer_norm]

void rms_norm(Batch& batch) {
  const std::vector<float> x = batch.numbers(elements), gain = batch.positive(n, -1, 1);
  std::vector<float> y(elements), deviation(rows);
  h::rms_norm(batch.exec, n, eps, x, gain, y, deviation);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto in = [&](std::int64_t j) { return given(x[at(r, j)]); };
    const Bounded root_of =
        root(mean_of(sum(n, [&](std::int64_t j) { return in(j)*in(j); })) + given(eps));
    batch.of("y");
    batch.of("deviation").look(root_of, deviation[at(r)]);
    for (std::int64_t j = 0; j < n; ++j) {
      batch.of("y").look((in(j) / root_of) * given(gain[at(j)]), y[at(r, j)]);
    }
  }
}

void layer_norm(Batch& batch) {
  const std::vector<float> x = batch.numbers(elements), gain = batch.positive(n, -1, 1);
  const std::vector<float> bias = batch.numbers(n);
  std::vector<float> y(elements), mean(rows), deviation(rows);
  h::layer_norm(batch.exec, n, eps, x, gain, bias, y, mean, deviation);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto in = [&](std::int64_t j) { return given(x[at(r, j)]); };
    const Bounded middle = mean_of(sum(n, in));
    std::vector<Bounded> c;
    for (std::int64_t j = 0; j < n; ++j) c.push_back(in(j)-middle);
    const Bounded root_of =
        root(mean_of(sum(n, [&](std::int64_t j) { return c[at(j)] * c[at(j)]; })) + given(eps));
    batch.of("y");
    batch.of("mean").look(middle, mean[at(r)]);
    batch.of("deviation").look(root_of, deviation[at(r)]);
    for (std::int64_t j = 0; j < n; ++j) {
      batch.of("y").look((c[at(j)] / root_of) * given(gain[at(j)]) + given(bias[at(j)]),
                         y[at(r, j)]);
    }
  }
}

void rms_norm_backward(Batch& batch) {
  const std::vector<float> dy = batch.numbers(elements), x = batch.numbers(elements);
  const std::vector<float> gain = batch.positive(n, -1, 1), deviation = batch.positive(rows, -3, 2);
  std::vector<float> dx(elements), d_gain(n);
  h::rms_norm_backward(batch.exec, n, dy, x, gain, deviation, dx, d_gain);
  const auto unit = [&](std::int64_t r, std::int64_t j) {
    return given(x[at(r, j)]) / given(deviation[at(r)]);
  };
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto g = [&](std::int64_t j) { return given(dy[at(r, j)]) * given(gain[at(j)]); };
    const Bounded k = mean_of(sum(n, [&](std::int64_t j) { return g(j) * unit(r, j); }));
    for (std::int64_t j = 0; j < n; ++j) {
      batch.of("dx").look((g(j) - unit(r, j) * k) / given(deviation[at(r)]), dx[at(r, j)]);
    }
  }
  for (std::int64_t j = 0; j < n; ++j) {
    const auto term = [&](std::int64_t r) { return given(dy[at(r, j)]) * unit(r, j); };
    batch.of("d_gain").look(sum(rows, term), d_gain[at(j)]);
  }
}

void layer_norm_backward(Batch& batch) {
  const std::vector<float> dy = batch.numbers(elements), x = batch.numbers(elements);
  const std::vector<float> gain = batch.positive(n, -1, 1), mean = batch.numbers(rows, -6, 0);
  const std::vector<float> deviation = batch.positive(rows, -3, 2);
  std::vector<float> dx(elements), d_gain(n), d_bias(n);
  h::layer_norm_backward(batch.exec, n, dy, x, gain, mean, deviation, dx, d_gain, d_bias);
  const auto unit = [&](std::int64_t r, std::int64_t j) {
    return (given(x[at(r, j)]) - given(mean[at(r)])) / given(deviation[at(r)]);
  };
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto g = [&](std::int64_t j) { return given(dy[at(r, j)]) * given(gain[at(j)]); };
    const Bounded l = mean_of(sum(n, g));
    const Bounded k = mean_of(sum(n, [&](std::int64_t j) { return g(j) * unit(r, j); }));
    for (std::int64_t j = 0; j < n; ++j) {
      batch.of("dx").look(((g(j) - l) - unit(r, j) * k) / given(deviation[at(r)]), dx[at(r, j)]);
    }
  }
  for (std::int64_t j = 0; j < n; ++j) {
    const auto term = [&](std::int64_t r) { return given(dy[at(r, j)]) * unit(r, j); };
    batch.of("d_gain").look(sum(rows, term), d_gain[at(j)]);
    batch.of("d_bias").look(sum(rows, [&](std::int64_t r) { return given(dy[at(r, j)]); }),
                            d_bias[at(j)]);
  }
}

}  // namespace

std::vector<Measured> measured_rows() {
  constexpr std::int64_t seen = 2 * (n * (n + 1) / 2);  // below and on the diagonals
  return {{"causal_softmax", seen, causal_softmax},
          {"causal_softmax_backward", seen, causal_softmax_backward},
          {"masked_softmax", elements, masked_softmax},
          {"masked_softmax_backward", elements, masked_softmax_backward},
          {"sink_softmax", elements, sink_softmax},
          {"sink_softmax_backward", elements, sink_softmax_backward},
          {"rms_norm", elements, rms_norm},
          {"rms_norm_backward", elements, rms_norm_backward},
          {"layer_norm", elements, layer_norm},
          {"layer_norm_backward", elements, layer_norm_backward}};
}

}  // namespace zeroproof::errors
