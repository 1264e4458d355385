#include "verification/bench/matrix_rows.hpp"

#include <algorithm>
#include <bit>
#include <deque>

#include "common/base/philox.hpp"
#include "cuda/host/operations.hpp"
#include "verification/bench/limit_loops.hpp"

namespace zeroproof::verification::bench {
namespace {

namespace host = cuda::host;

std::string text(std::initializer_list<std::int64_t> extents) {
  std::string joined;
  for (const std::int64_t extent : extents) {
    if (!joined.empty()) joined += 'x';
    joined += std::to_string(extent);
  }
  return joined;
}

std::vector<float> random_matrix(std::int64_t numel, std::uint64_t seed) {
  const Philox random(seed);
  std::vector<float> values;
  for (std::int64_t i = 0; i < numel; ++i) values.push_back(random.bell(i));
  return values;
}

/// Multiplications of X X^T of an m x k matrix that differ.
constexpr double half_product(std::int64_t m, std::int64_t k) { return 0.5 * m * (m + 1) * k; }

class MatrixRows {
 public:
  MatrixRows(int num_threads, WorkerTeam& team) : team_(team) { exec_.num_threads = num_threads; }

  void add_product(std::int64_t rows, std::int64_t columns, std::int64_t inner) {
    Matrices& m = matrices(rows * inner, columns * inner, rows * columns);
    add("product " + text({rows, columns, inner}), 1.0 * rows * columns * inner, m,
        [=, &m](const Exec& exec, Span<float> result) {
          host::matrix_product(exec, MatrixFactors::bf16, rows, columns, inner, m.left, m.right,
                               result);
        });
  }

  void add_gram(std::int64_t rows, std::int64_t inner) {
    Matrices& m = matrices(rows * inner, 0, rows * rows);
    add("product " + text({rows, rows, inner}) + ", one matrix", half_product(rows, inner), m,
        [=, &m](const Exec& exec, Span<float> result) {
          host::matrix_product(exec, MatrixFactors::bf16, rows, rows, inner, m.left, m.left,
                               result);
        });
  }

  void add_newton_schulz(std::int64_t rows, std::int64_t columns, MatrixFactors factors) {
    NewtonSchulzOptions options;
    options.factors = factors;
    const std::int64_t m = std::min(rows, columns), k = std::max(rows, columns);
    const double step = half_product(m, k) + half_product(m, m) + 1.0 * m * m * k;
    Matrices& all = matrices(rows * columns, 0, rows * columns);
    const char* const wide = factors == MatrixFactors::fp32 ? ", factors fp32" : "";
    add("newton_schulz " + text({rows, columns}) + wide, options.steps * step, all,
        [=, &all](const Exec& exec, Span<float> result) {
          host::newton_schulz(exec, options, rows, columns, all.left, result);
        });
  }

  void report(const Options& options, Report& report) {
    Group group{"matrices", std::move(rows_)};
    measure(group.rows, options.rounds);
    for (const std::string& name : names_)
      group.judge_limit(name + ", of its limit's speed", name, 0.50);
    report.add(group, true);
    for (std::size_t i = 0; i < names_.size(); ++i)
      report.check("all threads = one thread", same_on_one_thread(matrices_[i]), names_[i]);
  }

 private:
  using Body = std::function<void(const Exec&, Span<float>)>;

  struct Matrices {
    std::vector<float> left, right, result;
    Body body = {};
  };

  Matrices& matrices(std::int64_t left, std::int64_t right, std::int64_t result) {
    return matrices_.emplace_back(random_matrix(left, 1), random_matrix(right, 2),
                                  std::vector<float>(result));
  }

  void add(const std::string& name, double multiplications, Matrices& m, Body body) {
    m.body = std::move(body);
    names_.push_back(name);
    Row row{name, 0, 1, timed([this, &m] { m.body(exec_, m.result); }), {name}};
    row.operations = 2 * multiplications;
    Row limit{"limit " + name, 0, 1, timed([this, multiplications] {
                team_.run(
                    static_cast<std::int64_t>(multiplications),
                    [](std::int64_t begin, std::int64_t end) { multiply_and_add(end - begin); });
              })};
    limit.operations = row.operations;
    limit.shape = name;
    rows_.push_back(std::move(row));
    rows_.push_back(std::move(limit));
  }

  static bool same_on_one_thread(const Matrices& m) {
    std::vector<float> alone(m.result.size());
    m.body(Exec{}, alone);
    return std::ranges::equal(alone, m.result, {}, std::bit_cast<std::uint32_t, float>,
                              std::bit_cast<std::uint32_t, float>);
  }

  WorkerTeam& team_;
  Exec exec_;
  std::deque<Matrices> matrices_;  // of the rows that are judged, in their order; they do not move
  std::vector<std::string> names_;
  std::vector<Row> rows_;
};

}  // namespace

void measure_matrices(const Options& options, std::int64_t side, WorkerTeam& team, Report& report) {
  MatrixRows rows(options.threads, team);
  rows.add_product(side, side, side);
  rows.add_product(side - 1, side / 2 + 5, side + 7);
  rows.add_gram(side, side);
  for (const MatrixFactors factors : {MatrixFactors::bf16, MatrixFactors::fp32}) {
    rows.add_newton_schulz(side, side, factors);
    rows.add_newton_schulz(side + 7, side / 2 - 3, factors);
  }
  rows.report(options, report);
}

}  // namespace zeroproof::verification::bench
