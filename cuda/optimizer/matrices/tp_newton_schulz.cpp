#include "cuda/optimizer/matrices/tp_newton_schulz.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/comm/exchange/packed_exchange.hpp"
#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/optimizer/matrices/matrix_moves.hpp"

namespace zeroproof::cuda {
namespace {

constexpr std::int64_t element_bytes = sizeof(float);

std::vector<std::vector<TreeNode>> nodes_of_ranks(int ranks) {
  std::vector<std::vector<TreeNode>> nodes;
  for (int rank = 0; rank < ranks; ++rank) {
    const FlatRange blocks = tp_blocks(rank, ranks);
    nodes.push_back(host::maximal_nodes(blocks.begin, blocks.end));
  }
  return nodes;
}

Span<std::byte> bytes_at(float* values, std::int64_t numel) {
  return {reinterpret_cast<std::byte*>(values), static_cast<std::size_t>(numel * element_bytes)};
}

std::int64_t bytes_of(const std::vector<MatrixRun>& runs) {
  std::int64_t numel = 0;
  for (const MatrixRun& run : runs) numel += run.numel;
  return numel * element_bytes;
}

}  // namespace

TpNewtonSchulz::TpNewtonSchulz(const OptimizerSetup& setup, const MatrixExchange& plan,
                               GradMemory& messages, const KernelTable& ops)
    : setup_(setup),
      ops_(ops),
      plan_(plan),
      messages_(messages),
      rank_(tp_rank(setup_)),
      ranks_(tp_ranks(setup_)),
      slices_(plan_, rank_, ranks_),
      nodes_(nodes_of_ranks(ranks_)) {
  for (std::size_t i = 0; i < plan_.matrices().size(); ++i)
    for (const TpSlice& slice : slices_.of(static_cast<std::int64_t>(i)))
      work_numel_ = std::max(work_numel_, work_numel_of(slice));
  reserve_messages();
}

/// Of the largest batch and part, if every matrix is updated, so that memory is as large in every
/// step.
void TpNewtonSchulz::reserve_messages() {
  const auto packed = [](const std::vector<std::vector<MatrixRun>>& ranks, std::size_t from_runs) {
    std::int64_t sum = 0;
    for (const std::vector<MatrixRun>& runs : ranks)
      sum += runs.size() < from_runs ? 0 : next_part(bytes_of(runs));
    return sum;
  };
  constexpr std::size_t any = 0, scattered = 2;  // one run is sent from its place
  for (const MatrixBatch& batch : plan_.batches()) {
    const MatrixMessages all = slices_.messages(batch, [](std::int64_t) { return true; });
    most_bytes_.out =
        std::max({most_bytes_.out, packed(all.away, scattered), packed(all.here, scattered)});
    most_bytes_.in = std::max({most_bytes_.in, packed(all.here, any), packed(all.away, any)});
  }
  for (std::size_t i = 0; i < plan_.matrices().size(); ++i) {
    for (const TpSlice& slice : slices_.of(static_cast<std::int64_t>(i))) {
      std::int64_t out = 0, in = 0;
      for (int rank = 0; rank < ranks_; ++rank) {
        if (rank == rank_) continue;
        const auto bytes = [&](int from, int to) {
          return next_part(static_cast<std::int64_t>(nodes_[from].size()) *
                           rows_of(slice, to).numel() * slice.shorter * element_bytes);
        };
        out += nodes_[rank_].size() > 1 ? bytes(rank_, rank) : 0;
        in += bytes(rank, rank_);
      }
      most_bytes_.out = std::max(most_bytes_.out, out);
      most_bytes_.in = std::max(most_bytes_.in, in);
    }
  }
}

std::int64_t TpNewtonSchulz::scaled_numel(const TpSlice& slice) const {
  const bool scales = setup_.hyper.muon.newton_schulz.form == PolynomialForm::scaled_factor;
  return scales ? rows_of(slice, rank_).numel() * slice.shorter : 0;
}

std::int64_t TpNewtonSchulz::panels_numel(const TpSlice& slice) const {
  const std::int64_t m = slice.shorter, n = slice.columns.numel();
  return std::max({host::panels_numel(m, m, n),
                   host::panels_numel(rows_of(slice, rank_).numel(), m, m),
                   host::panels_numel(m, n, m)});
}

TpNewtonSchulz::Work TpNewtonSchulz::work_in(float* memory, const TpSlice& slice) const {
  const std::int64_t square = slice.shorter * slice.shorter;
  float* const gram = memory + slice.numel();
  float *const folds = gram + square, *const scaled = folds + num_folds() * square;
  return {memory, gram, folds, scaled, scaled + scaled_numel(slice)};
}

void TpNewtonSchulz::orthogonalise(const MatrixBatch& batch, const MatrixExchange::Updated& updated,
                                   float* whole, float* memory) {
  std::vector<Started> all;
  for (std::int64_t i = batch.first; i < batch.end; ++i) {
    if (!updated(plan_.matrices()[i].tensor)) continue;
    for (const TpSlice& slice : slices_.of(i)) all.push_back({&slice, {}});
  }
  messages_.out.take(most_bytes_.out);
  messages_.gathered.take(most_bytes_.in);
  if (all.empty()) return;  // on all TP ranks
  float* const slices = memory;
  const MatrixMessages messages = slices_.messages(batch, updated);
  exchange(messages.away, &MatrixRun::local_begin, whole, messages.here, &MatrixRun::place, slices);
  for (const MatrixRun& run : messages.own)
    std::copy_n(whole + run.local_begin, run.numel, slices + run.place);
  for (Started& one : all) {
    const Span<float> e(slices + one.slice->place, static_cast<std::size_t>(one.slice->numel()));
    const NewtonSchulzOptions& options = setup_.hyper.muon.newton_schulz;
    if (options.rounds_first) round(e);
    ops_.grad_norm_exact_accumulate(setup_.exec, e, one.squares);
  }
  const std::vector<double> norms = norms_of(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const TpSlice& slice = *all[i].slice;
    iterate(slice, norms[i], slices + slice.place, work_in(memory + slices_.most_numel(), slice));
  }
  exchange(messages.here, &MatrixRun::place, slices, messages.away, &MatrixRun::local_begin, whole);
  for (const MatrixRun& run : messages.own)
    std::copy_n(slices + run.place, run.numel, whole + run.local_begin);
}

void TpNewtonSchulz::exchange(const std::vector<std::vector<MatrixRun>>& send,
                              std::int64_t MatrixRun::*send_begin, float* from,
                              const std::vector<std::vector<MatrixRun>>& receive,
                              std::int64_t MatrixRun::*receive_begin, float* to) {
  std::vector<Stretches> leaving;
  std::vector<std::int64_t> received_bytes;
  for (int rank = 0; rank < ranks_; ++rank) {
    leaving.push_back(stretches_of(send[rank], send_begin, from));
    received_bytes.push_back(bytes_of(receive[rank]));
  }
  const std::vector<Span<std::byte>> arrived =
      exchange_packed(*setup_.tp, leaving, received_bytes, messages_.out, messages_.gathered);
  std::vector<Move> moves;
  for (int rank = 0; rank < ranks_; ++rank)
    unpack(arrived[rank].data(), stretches_of(receive[rank], receive_begin, to), moves);
  messages_.space().copy_many(moves);
}

/// N of R28: exact sums of integers, so their order over ranks is free.
std::vector<double> TpNewtonSchulz::norms_of(std::vector<Started>& all) const {
  constexpr std::size_t words = sizeof(NormLimbs) / sizeof(std::uint64_t);
  std::vector<std::uint64_t> sums(all.size() * words);
  for (std::size_t i = 0; i < all.size(); ++i) {
    host::grad_norm_normalise(all[i].squares);
    std::memcpy(sums.data() + i * words, &all[i].squares, sizeof(NormLimbs));
  }
  setup_.tp->all_reduce(sums, IntegerReduce::sum);
  std::vector<double> norms;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::memcpy(static_cast<void*>(&all[i].squares), sums.data() + i * words, sizeof(NormLimbs));
    host::grad_norm_normalise(all[i].squares);
    norms.push_back(host::grad_norm_finish(all[i].squares));
  }
  return norms;
}

void TpNewtonSchulz::iterate(const TpSlice& slice, double norm, float* x, const Work& work) {
  const NewtonSchulzOptions& options = setup_.hyper.muon.newton_schulz;
  const host::MatrixKernels& kernels = host::matrix_kernels(setup_.exec.isa);
  const bool rounds = options.factors == MatrixFactors::bf16;
  const double divisor = host::newton_schulz_divisor(options, norm);
  host::parallel_blocks(setup_.exec, slice.numel(), [&](std::int64_t begin, std::int64_t end) {
    kernels.divide(divisor, x + begin, x + begin, rounds, end - begin);
  });
  const std::int64_t m = slice.shorter, n = slice.columns.numel();
  const FlatRange rows = rows_of(slice, rank_);
  host::MatrixMultiplier multiplier(setup_.exec, work.panels);
  float* const polynomial = work.folds;  // after the folds have been sent
  const host::MatrixFactor whole_gram{work.gram, m, 1, m}, whole_polynomial{polynomial, m, 1, m};
  float *from = x, *to = work.next;
  for (int k = 0; k < options.steps; ++k) {
    const host::PolynomialEnds ends(options, polynomial_of(options.coefficients, k));
    make_gram(slice, from, work, multiplier);
    const float* own_rows = work.gram + rows.begin * m;
    const host::ProductEnd end = ends.polynomial_of(own_rows);
    if (options.form == PolynomialForm::scaled_factor) {
      kernels.scale(ends.left_factor, own_rows, work.scaled, rounds, rows.numel() * m);
      own_rows = work.scaled;
    }
    multiplier.multiply({own_rows, m, 1, rows.numel()}, whole_gram, {m}, options.factors, false,
                        end, polynomial + rows.begin * m);
    gather_rows(slice, polynomial);
    // (B X)^T = X^T B^T has the same terms in the same order.
    if (slice.transposed)
      multiplier.multiply({from, m, 1, n}, whole_polynomial, {m}, options.factors, false,
                          ends.next_of(from), to);
    else
      multiplier.multiply(whole_polynomial, {from, 1, n, n}, {m}, options.factors, false,
                          ends.next_of(from), to);
    std::swap(from, to);
  }
  if (from != x) std::copy_n(from, slice.numel(), x);
}

/// As factors are (R28).
void TpNewtonSchulz::round(Span<float> values) const {
  if (setup_.hyper.muon.newton_schulz.factors != MatrixFactors::bf16) return;
  const host::MatrixKernels& kernels = host::matrix_kernels(setup_.exec.isa);
  host::parallel_blocks(setup_.exec, numel(values), [&](std::int64_t begin, std::int64_t end) {
    kernels.scale(1.0F, values.data() + begin, values.data() + begin, true, end - begin);
  });
}

void TpNewtonSchulz::make_gram(const TpSlice& slice, const float* x, const Work& work,
                               host::MatrixMultiplier& multiplier) {
  const std::int64_t m = slice.shorter, n = slice.columns.numel();
  std::int64_t first_column = 0;
  float* fold = work.folds;
  for (const TreeNode& node : nodes_[rank_]) {
    const host::InnerBlocks blocks{slice.longer, static_cast<int>(node.first_micro_batch()),
                                   1 << node.level};
    const host::MatrixFactor factor = slice.transposed
                                          ? host::MatrixFactor{x + first_column * m, 1, m, m}
                                          : host::MatrixFactor{x + first_column, n, 1, m};
    multiplier.multiply(factor, factor, blocks, setup_.hyper.muon.newton_schulz.factors, true, {},
                        fold);
    first_column += blocks.terms();
    fold += m * m;
  }
  std::vector<Stretches> send(ranks_);
  std::vector<std::int64_t> received_bytes(ranks_);
  const std::int64_t own_numel = rows_of(slice, rank_).numel() * m;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank == rank_) continue;
    const FlatRange rows = rows_of(slice, rank);
    for (std::size_t i = 0; i < nodes_[rank_].size(); ++i)
      send[rank].push_back(bytes_at(
          work.folds + (static_cast<std::int64_t>(i) * m + rows.begin) * m, rows.numel() * m));
    received_bytes[rank] =
        static_cast<std::int64_t>(nodes_[rank].size()) * own_numel * element_bytes;
  }
  const std::vector<Span<std::byte>> arrived =
      exchange_packed(*setup_.tp, send, received_bytes, messages_.out, messages_.gathered);
  std::vector<TreeNode> nodes;
  std::vector<const float*> folds;
  float* const own = work.gram + rows_of(slice, rank_).begin * m;
  for (int rank = 0; rank < ranks_; ++rank) {
    nodes.insert(nodes.end(), nodes_[rank].begin(), nodes_[rank].end());
    const float* at = rank == rank_ ? work.folds + (own - work.gram)
                                    : reinterpret_cast<const float*>(arrived[rank].data());
    for (std::size_t i = 0; i < nodes_[rank].size(); ++i, at += rank == rank_ ? m * m : own_numel)
      folds.push_back(at);
  }
  const Span<float> product(own, static_cast<std::size_t>(own_numel));
  ops_.fold_products(setup_.exec, nodes, folds, product);
  round(product);
  gather_rows(slice, work.gram);
}

void TpNewtonSchulz::gather_rows(const TpSlice& slice, float* matrix) {
  std::vector<Span<std::byte>> receive;
  for (int rank = 0; rank < ranks_; ++rank) {
    const FlatRange rows = rows_of(slice, rank);
    receive.push_back(bytes_at(matrix + rows.begin * slice.shorter, rows.numel() * slice.shorter));
  }
  setup_.tp->all_gather(receive[rank_], receive);
}

}  // namespace zeroproof::cuda
