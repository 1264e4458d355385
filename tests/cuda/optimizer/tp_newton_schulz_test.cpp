// Newton-Schulz of matrices that any number of TP ranks share (R28), against that of the whole matrix.

#include "cuda/optimizer/matrices/tp_newton_schulz.hpp"

#include <doctest.h>

#include <string>

#include "common/comm/self.hpp"
#include "common/comm/threads.hpp"
#include "cuda/host/operations.hpp"
#include "tests/cuda/every_exec.hpp"
#include "tests/cuda/optimizer/muon_truth.hpp"
#include "tests/support/values.hpp"

namespace tp_newton_schulz_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using cuda::MatrixExchange;
using Values = std::vector<float>;

struct Shared {
  std::int64_t rows, columns;
  bool by_columns;  ///< of the cut between TP ranks
  MatrixTensor parts = {true, false, {}};
};

/// The lines that a TP rank has: not equally many, and none on some ranks if there are few.
FlatRange lines_of(std::int64_t extent, int rank, int ranks) {
  const auto cut = [&](int at) { return extent * at * at / (ranks * ranks); };
  return {cut(rank), cut(rank + 1)};
}

/// A TP rank's tensors, and a setup of stage 0.
struct TpRank {
  TpRank(const std::vector<Shared>& all, const NewtonSchulzOptions& options, Communicator& ranks)
      : self(make_self_communicator()) {
    std::vector<ParamSpec> whole, mine;
    for (const Shared& matrix : all) {
      const FlatRange lines = lines_of(matrix.by_columns ? matrix.columns : matrix.rows,
                                       ranks.rank(), ranks.world_size());
      const std::string name = "m" + std::to_string(whole.size());
      whole.push_back({name, {matrix.rows, matrix.columns}});
      mine.push_back({name, matrix.by_columns
                                ? std::vector<std::int64_t>{matrix.rows, lines.numel()}
                                : std::vector<std::int64_t>{lines.numel(), matrix.columns}});
    }
    undistributed = FlatLayout(whole);
    layout = FlatLayout(mine);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& [rows, columns, by_columns, parts] = all[i];
      const std::int64_t begin = undistributed.tensors()[i].begin;
      const FlatRange lines =
          lines_of(by_columns ? columns : rows, ranks.rank(), ranks.world_size());
      const std::int64_t numel = std::max<std::int64_t>(layout.tensors()[i].numel, 1);
      setup.placement.push_back(
          by_columns ? TensorPlacement{false, begin + lines.begin,
                                       std::max<std::int64_t>(lines.numel(), 1), columns}
                     : TensorPlacement{false, begin + lines.begin * columns, numel, numel});
      setup.matrix_tensors.push_back(parts);
    }
    setup.layout = &layout;
    setup.matrices = matrices_of(undistributed);
    setup.comm = self.get();
    setup.tp = &ranks;
    setup.hyper.rule = UpdateRule::muon;
    setup.hyper.muon.newton_schulz = options;
    setup.matrix_tensor_parallel = MatrixTensorParallel::distributed;
  }

  FlatLayout undistributed{{}}, layout{{}};
  const std::unique_ptr<Communicator> self;
  OptimizerSetup setup;
};

/// O of a matrix, part by part.
Values whole_result(const Shared& matrix, const NewtonSchulzOptions& options, const Values& e) {
  Values o = e;
  const bool by_columns = matrix.parts.by_columns;
  for (std::size_t p = 0; p < static_cast<std::size_t>(matrix.parts.num_parts()); ++p) {
    const std::vector<std::int64_t> lines =
        lines_of_part(matrix.parts, p, by_columns ? matrix.columns : matrix.rows);
    const auto count = static_cast<std::int64_t>(lines.size());
    const std::int64_t rows = by_columns ? matrix.rows : count,
                       columns = by_columns ? count : matrix.columns;
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        places.push_back(by_columns ? i * matrix.columns + lines[j]
                                    : lines[i] * matrix.columns + j);
    Values part;
    for (const std::int64_t place : places) part.push_back(e[place]);
    cuda::host::newton_schulz({}, options, rows, columns, part, part);
    for (std::size_t i = 0; i < places.size(); ++i) o[places[i]] = part[i];
  }
  return o;
}

/// Elements of O on all ranks that differ from those of whole matrices; compared: their number.
std::int64_t wrong_elements(const std::vector<Shared>& all, const NewtonSchulzOptions& options,
                            int ranks, std::int64_t batch_numel, std::int64_t& compared) {
  const std::vector<Exec> execs = every_exec();
  std::vector<Values> e, o;
  for (std::size_t i = 0; i < all.size(); ++i) {
    e.push_back(random_values(all[i].rows * all[i].columns, 100 * i + ranks));
    o.push_back(whole_result(all[i], options, e.back()));
  }
  std::vector<std::int64_t> wrong(ranks), counted(ranks);
  ThreadWorld world(ranks);
  run_ranks(world, [&](Communicator& tp) {
    TpRank rank(all, options, tp);
    rank.setup.exec = execs[static_cast<std::size_t>(tp.rank()) % execs.size()];
    const MatrixExchange plan(rank.setup, cuda::gather_matrix_parts(rank.setup), batch_numel);
    cuda::MemoryLedger ledger;
    cuda::GradMemory messages(ledger, true);
    cuda::TpNewtonSchulz shared(rank.setup, plan, messages, cuda::host_ops());
    Values memory(shared.memory_numel(), nan32), whole(plan.most_numel());
    for (const cuda::MatrixBatch& batch : plan.batches()) {
      const auto elements = [&](const auto& body) {
        for (std::int64_t i = batch.first; i < batch.end; ++i) {
          const TensorPlacement& place = rank.setup.placement[i];
          for (std::int64_t at = 0; at < rank.layout.tensors()[i].numel; ++at)
            body(i, place.global(at) - rank.undistributed.tensors()[i].begin,
                 whole[plan.begin_of(i) + at]);
        }
      };
      elements([&](std::int64_t i, std::int64_t at, float& value) { value = e[i][at]; });
      shared.orthogonalise(
          batch, [](std::int64_t) { return true; }, whole.data(), memory.data());
      elements([&](std::int64_t i, std::int64_t at, float& value) {
        ++counted[tp.rank()];
        wrong[tp.rank()] += bits(value) != bits(o[i][at]) ? 1 : 0;
      });
    }
  });
  std::int64_t sum = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    compared += counted[rank];
    sum += wrong[rank];
  }
  return sum;
}

}  // namespace

TEST_CASE("shared matrices: any number of TP ranks has the bits of the whole matrix") {
  const std::vector<Shared> all = {{9, 70, true},
                                   {70, 9, true},
                                   {9, 70, false},
                                   {70, 9, false},
                                   {33, 33, true},
                                   {1, 40, true},
                                   {40, 1, false},
                                   {3, 5, true},
                                   {5, 3, false},
                                   {1, 1, true},
                                   {2, 7, false},
                                   {100, 130, true},
                                   {24, 30, true, {true, false, {5, 1}}},
                                   {24, 30, false, {true, false, {5, 1}}},
                                   {30, 32, true, {true, true, {3, 4, 1}}},
                                   {30, 32, false, {true, true, {3, 4, 1}}}};
  std::int64_t numel = 0;
  for (const Shared& matrix : all) numel += matrix.rows * matrix.columns;
  for (const int ranks : {2, 3, 4, 5, 6, 7, 8, 9, 12}) {
    for (const PolynomialForm form :
         {PolynomialForm::fused, PolynomialForm::scaled_factor, PolynomialForm::scaled_product}) {
      for (const MatrixFactors factors : {MatrixFactors::bf16, MatrixFactors::fp32}) {
        CAPTURE(ranks);
        NewtonSchulzOptions options;
        options.steps = 2 + ranks % 2;
        options.form = form;
        options.factors = factors;
        options.rounds_first = ranks > 4 && factors == MatrixFactors::bf16;
        std::int64_t compared = 0;
        CHECK(wrong_elements(all, options, ranks, ranks % 3 == 0 ? 1000 : 1 << 20, compared) == 0);
        CHECK(compared == numel);
      }
    }
  }
}

TEST_CASE("shared matrices: no rank has the whole of a matrix") {
  ThreadWorld world(4);
  run_ranks(world, [&](Communicator& tp) {
    const TpRank rank({{64, 4096, true}}, {}, tp);
    const MatrixExchange plan(rank.setup, cuda::gather_matrix_parts(rank.setup));
    cuda::MemoryLedger ledger;
    cuda::GradMemory messages(ledger, true);
    const cuda::TpNewtonSchulz shared(rank.setup, plan, messages, cuda::host_ops());
    CHECK(plan.most_numel() == rank.layout.tensors()[0].numel);
    // X, X', A, folds, packed factors of X X^T
    CHECK(shared.memory_numel() == 2 * 64 * 1024 + 2 * 64 * 64 + (64 + 64 + 62) * 1024);
  });
}

}  // namespace tp_newton_schulz_test
