#include "verification/tools/plan/predict/matrix_use.hpp"

#include <algorithm>
#include <numeric>

#include "common/step/distributed_optimizer.hpp"
#include "verification/tools/plan/predict/predicted_step.hpp"

namespace zeroproof {
namespace {

constexpr std::int64_t matrix_element_bytes = 4;

/// Elements from one rank to another in a batch; more runs than one are packed into a message buffer.
struct Flow {
  std::int64_t numel = 0;
  int away_runs = 0,
      here_runs = 0;  ///< in the sender's shard, in the receiver's whole matrix; 2: more than one

  std::int64_t bytes() const { return matrix_element_bytes * numel; }
};

std::int64_t packed_if(bool scattered, std::int64_t bytes) {
  return scattered ? next_part(bytes) : 0;
}

/// Elements that follow one another in the memory of the whole matrix, from an element of a TP rank's tensor on.
std::int64_t run_from(const PredictedMatrix& matrix, const TensorPlacement& place,
                      std::int64_t element) {
  const std::int64_t in_row = place.row_numel - element % place.row_numel;
  if (matrix.parts.widths.empty()) return in_row;
  const std::int64_t whole = place.global(element) - matrix.whole.begin;
  const std::int64_t columns = matrix.whole.columns, row = whole / columns,
                     column = whole % columns;
  const std::int64_t period =
      std::accumulate(matrix.parts.widths.begin(), matrix.parts.widths.end(), std::int64_t{0});
  std::int64_t rest = (matrix.parts.by_columns ? column : row) % period;
  auto width = matrix.parts.widths.begin();
  while (rest >= *width) rest -= *width++;
  const std::int64_t left = *width - rest;  // rows or columns of this part in this period
  return std::min(in_row, matrix.parts.by_columns ? left : left * columns - column);
}

/// 0, 1, or 2 for more.
int runs_of(const PredictedMatrix& matrix, const TensorPlacement& place, std::int64_t begin,
            std::int64_t numel) {
  if (numel == 0) return 0;
  return run_from(matrix, place, begin) >= numel ? 1 : 2;
}

void add(MatrixUse::Exchange& exchange, std::int64_t sent, std::int64_t received) {
  exchange.messages += sent > 0 ? 1 : 0;
  exchange.messages_received += received > 0 ? 1 : 0;
  exchange.sent_bytes += sent;
  exchange.received_bytes += received;
}

/// Rows and columns of the parts of a matrix.
std::vector<MatrixShape> parts_of(const PredictedMatrix& matrix) {
  const TensorMatrix& whole = matrix.whole;
  const std::vector<std::int64_t>& widths = matrix.parts.widths;
  if (widths.empty()) return {{whole.rows, whole.columns}};
  const std::int64_t period = std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
  std::vector<MatrixShape> parts;
  for (const std::int64_t width : widths) {
    parts.push_back(matrix.parts.by_columns
                        ? MatrixShape{whole.rows, whole.columns / period * width}
                        : MatrixShape{whole.rows / period * width, whole.columns});
  }
  return parts;
}

std::int64_t shorter(const MatrixShape& part) { return std::min(part.rows, part.columns); }
std::int64_t longer(const MatrixShape& part) { return std::max(part.rows, part.columns); }

/// Elements of the factors of a product as they are packed, in panels of up to 32 rows.
std::int64_t packed_numel(std::int64_t rows, std::int64_t columns, std::int64_t inner) {
  return (rows + 31 + columns + 31) * inner;
}

/// Elements for a rank that has the whole of a part, in its place: its transpose if it has more rows than columns, A, in
/// one form F, and the packed factors of X X^T, more than those of other products.
std::int64_t whole_work_numel(const MatrixShape& part, PolynomialForm form) {
  const std::int64_t m = shorter(part), n = longer(part);
  return (part.rows > part.columns ? m * n : 0) +
         (form == PolynomialForm::scaled_factor ? 2 : 1) * m * m + packed_numel(m, m, n);
}

/// Begin of the columns of X that a TP rank has: 8 blocks (R27) are shared out in order.
std::int64_t first_column(std::int64_t longer, int rank, int ranks) {
  return longer * (8 * std::int64_t{rank} / ranks) / 8;
}

/// Partial folds of a TP rank: aligned blocks of a power of two, from the left.
std::int64_t num_folds(int rank, int ranks) {
  std::int64_t folds = 0;
  for (int at = 8 * rank / ranks, end = 8 * (rank + 1) / ranks; at < end; ++folds) {
    int size = 8;
    while (at % size != 0 || at + size > end) size /= 2;
    at += size;
  }
  return folds;
}

/// The parts of a matrix that TP ranks share, and their work.
class SharedMatrix {
 public:
  SharedMatrix(const PredictedMatrix& matrix, const NewtonSchulzOptions& options, int rank)
      : matrix_(matrix), options_(options), rank_(rank), ranks_(numel_of(matrix.tp)) {
    parts_ = parts_of(matrix);
    period_ =
        std::accumulate(matrix.parts.widths.begin(), matrix.parts.widths.end(), std::int64_t{0});
  }

  std::int64_t num_parts() const { return static_cast<std::int64_t>(parts_.size()); }
  /// Elements of X on this rank.
  std::int64_t numel() const {
    std::int64_t sum = 0;
    for (const MatrixShape& part : parts_) sum += shorter(part) * columns(part, rank_);
    return sum;
  }
  double products() const {
    double sum = 0;
    for (const MatrixShape& part : parts_) {
      const auto square = static_cast<double>(shorter(part) * shorter(part));
      sum += square * static_cast<double>(2 * columns(part, rank_) + rows(part, rank_));
    }
    return options_.steps * sum;
  }
  /// Elements besides those of X for the part that needs most: X', A, folds or B, F, and packed factors.
  std::int64_t work_numel() const {
    std::int64_t most = 0;
    const bool scaled = options_.form == PolynomialForm::scaled_factor;
    for (const MatrixShape& part : parts_) {
      const std::int64_t m = shorter(part);
      const std::int64_t squares = 1 + std::max<std::int64_t>(num_folds(rank_, ranks_), 1);
      const std::int64_t n = columns(part, rank_), own = rows(part, rank_);
      const std::int64_t packed =
          std::max({packed_numel(m, m, n), packed_numel(own, m, m), packed_numel(m, n, m)});
      most = std::max(most, m * n + squares * m * m + (scaled ? own * m : 0) + packed);
    }
    return most;
  }

  void add_products(MatrixUse& use) const {
    for (const MatrixShape& part : parts_) {
      const auto bytes = [&](int to, std::int64_t folds) {
        return matrix_element_bytes * folds * rows(part, to) * shorter(part);
      };
      std::int64_t out = 0, in = 0;
      use.folds.calls += options_.steps;
      use.rows.calls += 2 * std::int64_t{options_.steps};
      const std::int64_t mine = num_folds(rank_, ranks_);
      for (int other = 0; other < ranks_; ++other) {
        if (other == rank_) continue;
        const std::int64_t sent = bytes(other, mine),
                           received = bytes(rank_, num_folds(other, ranks_));
        for (int step = 0; step < options_.steps; ++step) {
          add(use.folds, sent, received);
          for (int product = 0; product < 2; ++product)
            add(use.rows, bytes(rank_, 1), bytes(other, 1));
        }
        out += packed_if(mine > 1, sent);
        in += next_part(received);
      }
      use.out_bytes = std::max(use.out_bytes, out);
      use.gathered_bytes = std::max(use.gathered_bytes, in);
    }
  }

  /// Calls flow(to, numel) for elements that follow one another in the tensor of a TP rank and in the columns of X of
  /// rank `to`.
  template <class Use>
  void runs(int from, const Use& flow) const {
    const PredictedMatrix::OnTpRank& tensor = matrix_.tp[from];
    for (std::int64_t e = 0; e < tensor.numel;) {
      std::int64_t rest = std::min(run_from(matrix_, tensor.place, e), tensor.numel - e);
      auto [part, row, column] = place_of(tensor.place.global(e) - matrix_.whole.begin);
      for (e += rest; rest > 0;) {
        const bool tall = part.rows > part.columns;
        int to = 0;
        while (first_column(longer(part), to + 1, ranks_) <= (tall ? row : column)) ++to;
        const std::int64_t end = first_column(longer(part), to + 1, ranks_);
        const std::int64_t numel =
            std::min(rest, tall ? (end - row) * part.columns - column : end - column);
        flow(to, numel);
        rest -= numel;
        column += numel;
        row += column / part.columns;
        column %= part.columns;
      }
    }
  }

 private:
  struct Place {
    MatrixShape part;
    std::int64_t row, column;
  };

  static int numel_of(const std::vector<PredictedMatrix::OnTpRank>& tp) {
    return static_cast<int>(tp.size());
  }
  std::int64_t columns(const MatrixShape& part, int rank) const {
    return first_column(longer(part), rank + 1, ranks_) - first_column(longer(part), rank, ranks_);
  }
  /// Of A and B.
  std::int64_t rows(const MatrixShape& part, int rank) const {
    return shorter(part) * (rank + 1) / ranks_ - shorter(part) * rank / ranks_;
  }

  Place place_of(std::int64_t element) const {
    const std::int64_t row = element / matrix_.whole.columns,
                       column = element % matrix_.whole.columns;
    if (matrix_.parts.widths.empty()) return {parts_.front(), row, column};
    const std::int64_t line = matrix_.parts.by_columns ? column : row;
    std::int64_t offset = line % period_;
    std::size_t part = 0;
    while (offset >= matrix_.parts.widths[part]) offset -= matrix_.parts.widths[part++];
    const std::int64_t in_part = line / period_ * matrix_.parts.widths[part] + offset;
    if (matrix_.parts.by_columns) return {parts_[part], row, in_part};
    return {parts_[part], in_part, column};
  }

  const PredictedMatrix& matrix_;
  const NewtonSchulzOptions& options_;
  const int rank_, ranks_;
  std::int64_t period_ = 0;
  std::vector<MatrixShape> parts_;
};

/// The batches of matrices, one after another, for all ranks at once.
class BatchWalk {
 public:
  explicit BatchWalk(const PredictedMatrices& matrices)
      : matrices_(matrices),
        ranks_(static_cast<std::size_t>(matrices.ranks)),
        uses_(ranks_),
        load_(ranks_),
        whole_numel_(ranks_),
        flows_(ranks_ * ranks_),
        tp_numel_(ranks_ * matrices.all.front().tp.size()),
        tp_runs_(tp_numel_.size()),
        shared_(ranks_, Shared{{}, {}, 0, 0}),
        work_numel_(ranks_),
        slices_numel_(ranks_),
        whole_work_numel_(ranks_) {
    if (!returns()) return;
    std::vector<MatrixShape> shapes;
    for (const PredictedMatrix& matrix : matrices.all)
      shapes.push_back({matrix.whole.rows, matrix.whole.columns});
    owners_ = owners_of_matrices(matrices.owners, shapes, matrices.ranks);
  }

  std::vector<MatrixUse> all() {
    for (std::size_t i = 0; i < matrices_.all.size(); ++i) {
      if (i > 0 && !fits(i)) end_batch();
      add_matrix(i);
    }
    end_batch();
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      uses_[rank].work_bytes =
          matrix_element_bytes *
          std::max(whole_work_numel_[rank], slices_numel_[rank] + work_numel_[rank]);
    return std::move(uses_);
  }

 private:
  /// Matrices of a batch that TP ranks share, on one rank of comm.
  struct Shared {
    std::vector<Flow> away, here;  ///< [tp ranks]
    std::int64_t parts = 0, numel = 0;
  };

  bool shares(const PredictedMatrix& matrix) const {
    return matrix.split && matrices_.tensor_parallel == MatrixTensorParallel::distributed;
  }
  bool returns() const { return matrices_.owners != MatrixOwners::every; }

  bool some_tp_rank_owns(const PredictedMatrix& matrix, std::size_t rank) const {
    return std::ranges::any_of(matrix.tp, [&](const auto& one) { return one.owned[rank]; });
  }

  /// Ranks that bring the matrix together.
  bool gathers(std::size_t index, std::size_t rank) const {
    const PredictedMatrix& matrix = matrices_.all[index];
    if (matrix.whole.rows * matrix.whole.columns == 0) return false;
    if (returns()) return owners_[index] == static_cast<int>(rank);
    return matrix.split ? some_tp_rank_owns(matrix, rank)
                        : matrix.tp[matrices_.tp_rank].owned[rank];
  }

  /// Elements of the matrix that the batch is limited by: the same on all TP ranks.
  std::int64_t limited_numel(std::size_t index, std::size_t rank) const {
    const PredictedMatrix& matrix = matrices_.all[index];
    const bool counts = returns() ? gathers(index, rank) : some_tp_rank_owns(matrix, rank);
    if (!counts) return 0;
    if (!shares(matrix)) return matrix.whole.rows * matrix.whole.columns;
    return std::ranges::max_element(matrix.tp, {}, &PredictedMatrix::OnTpRank::numel)->numel;
  }

  bool fits(std::size_t index) const {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const std::int64_t more = limited_numel(index, rank);
      if (more > 0 && load_[rank] > 0 && load_[rank] + more > matrix_batch_numel) return false;
    }
    return true;
  }

  void add_matrix(std::size_t index) {
    const PredictedMatrix& matrix = matrices_.all[index];
    const PredictedMatrix::OnTpRank& mine = matrix.tp[matrices_.tp_rank];
    std::vector<std::size_t> gatherers;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      load_[rank] += limited_numel(index, rank);
      if (!gathers(index, rank)) continue;
      gatherers.push_back(rank);
      if (shares(matrix)) {
        share(matrix, rank);
        continue;
      }
      whole_numel_[rank] += matrix.whole.rows * matrix.whole.columns;
      if (returns() ? mine.numel > 0 : mine.owned[rank]) {
        ++uses_[rank].matrices;
        uses_[rank].products += newton_schulz_products(matrix, matrices_.newton_schulz.steps);
        for (const MatrixShape& part : parts_of(matrix))
          whole_work_numel_[rank] = std::max(whole_work_numel_[rank],
                                             whole_work_numel(part, matrices_.newton_schulz.form));
      }
      for (std::size_t tp = 0; matrix.split && tp < matrix.tp.size(); ++tp) {
        const std::size_t at = rank * matrix.tp.size() + tp;
        tp_numel_[at] += matrix.tp[tp].numel;
        tp_runs_[at] += runs_of(matrix, matrix.tp[tp].place, 0, matrix.tp[tp].numel);
      }
    }
    for (const PredictedMatrix::Elements& elements : matrix.elements) {
      const int runs =
          shares(matrix) ? 1 : runs_of(matrix, mine.place, elements.begin, elements.numel);
      for (const std::size_t to : gatherers) {
        if (static_cast<int>(to) == elements.rank) continue;
        Flow& flow = flows_[elements.rank * ranks_ + to];
        flow.numel += elements.numel;
        flow.away_runs += 1;
        flow.here_runs += runs;
        moves_ = true;
      }
    }
  }

  void share(const PredictedMatrix& matrix, std::size_t rank) {
    const SharedMatrix of_rank(matrix, matrices_.newton_schulz, matrices_.tp_rank);
    MatrixUse& use = uses_[rank];
    Shared& all = shared_[rank];
    all.away.resize(matrix.tp.size());
    all.here.resize(matrix.tp.size());
    whole_numel_[rank] += matrix.tp[matrices_.tp_rank].numel;
    ++use.matrices;
    use.products += of_rank.products();
    of_rank.add_products(use);
    all.parts += of_rank.num_parts();
    all.numel += of_rank.numel();
    work_numel_[rank] = std::max(work_numel_[rank], of_rank.work_numel());
    for (int from = 0; from < static_cast<int>(matrix.tp.size()); ++from) {
      of_rank.runs(from, [&](int to, std::int64_t numel) {
        if (from == to || (from != matrices_.tp_rank && to != matrices_.tp_rank)) return;
        Flow& flow = from == matrices_.tp_rank ? all.away[to] : all.here[from];
        flow.numel += numel;
        ++flow.away_runs;
        ++flow.here_runs;
      });
    }
  }

  void exchange_slices(std::size_t rank, MatrixUse& use) {
    Shared& all = shared_[rank];
    slices_numel_[rank] = std::max(slices_numel_[rank], all.numel);
    if (all.parts > 0) {
      constexpr std::int64_t word_bytes = 8, norm_words = 23;
      use.slices.calls += 2;
      ++use.norms.calls;
      std::int64_t out = 0, in = 0, out_back = 0, in_back = 0;
      for (int other = 0; other < static_cast<int>(all.away.size()); ++other) {
        if (other == matrices_.tp_rank) continue;
        const Flow &away = all.away[other], &here = all.here[other];
        add(use.slices, away.bytes(), here.bytes());
        add(use.slices, here.bytes(), away.bytes());
        add(use.norms, word_bytes * norm_words * all.parts, word_bytes * norm_words * all.parts);
        out += packed_if(away.away_runs > 1, away.bytes());
        in += next_part(here.bytes());
        out_back += packed_if(here.here_runs > 1, here.bytes());
        in_back += next_part(away.bytes());
      }
      use.out_bytes = std::max({use.out_bytes, out, out_back});
      use.gathered_bytes = std::max({use.gathered_bytes, in, in_back});
    }
    all = {{}, {}, 0, 0};
  }

  void end_batch() {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      MatrixUse& use = uses_[rank];
      use.whole_bytes = std::max(use.whole_bytes, matrix_element_bytes * whole_numel_[rank]);
      if (moves_) exchange(rank, use);
      complete_over_tp(rank, use);
      exchange_slices(rank, use);
    }
    std::ranges::fill(load_, 0);
    std::ranges::fill(whole_numel_, 0);
    std::ranges::fill(flows_, Flow{});
    std::ranges::fill(tp_numel_, 0);
    std::ranges::fill(tp_runs_, 0);
    moves_ = false;
  }

  void exchange(std::size_t rank, MatrixUse& use) const {
    std::int64_t out = 0, in = 0, out_back = 0, in_back = 0;
    ++use.there.calls;
    use.back.calls += returns() ? 1 : 0;
    for (std::size_t other = 0; other < ranks_; ++other) {
      const Flow& away = flows_[rank * ranks_ + other];
      const Flow& here = flows_[other * ranks_ + rank];
      add(use.there, away.bytes(), here.bytes());
      out += packed_if(away.away_runs > 1, away.bytes());
      in += next_part(here.bytes());
      if (!returns()) continue;
      add(use.back, here.bytes(), away.bytes());
      out_back += packed_if(here.here_runs > 1, here.bytes());
      in_back += next_part(away.bytes());
    }
    use.out_bytes = std::max({use.out_bytes, out, out_back});
    use.in_bytes = std::max({use.in_bytes, in, in_back});
  }

  void complete_over_tp(std::size_t rank, MatrixUse& use) const {
    const std::size_t tp_ranks = tp_numel_.size() / ranks_;
    const auto numel_of = [&](std::size_t tp) { return tp_numel_[rank * tp_ranks + tp]; };
    std::int64_t all = 0, scattered = 0;
    for (std::size_t tp = 0; tp < tp_ranks; ++tp) {
      all += numel_of(tp);
      scattered +=
          packed_if(tp_runs_[rank * tp_ranks + tp] > 1, matrix_element_bytes * numel_of(tp));
    }
    if (tp_ranks == 1 || all == 0) return;
    ++use.tp.calls;
    use.gathered_bytes = std::max(use.gathered_bytes, scattered);
    const std::int64_t mine = matrix_element_bytes * numel_of(matrices_.tp_rank);
    for (std::size_t tp = 0; tp < tp_ranks; ++tp) {
      if (static_cast<int>(tp) != matrices_.tp_rank)
        add(use.tp, mine, matrix_element_bytes * numel_of(tp));
    }
  }

  const PredictedMatrices& matrices_;
  const std::size_t ranks_;
  std::vector<int> owners_;  // [matrices], if results return
  std::vector<MatrixUse> uses_;
  // Of a batch:
  std::vector<std::int64_t> load_, whole_numel_;  // [ranks]
  std::vector<Flow> flows_;                       // [from][to]
  std::vector<std::int64_t> tp_numel_;            // [ranks][tp ranks]
  std::vector<int> tp_runs_;                      // the same
  std::vector<Shared> shared_;                    // [ranks]
  bool moves_ = false;
  // [ranks], of the part or batch that needs most:
  std::vector<std::int64_t> work_numel_, slices_numel_, whole_work_numel_;
};

/// The words of every TP rank, in rank order; each has as many.
std::vector<std::int64_t> of_tp_ranks(Communicator& tp, const std::vector<std::int64_t>& mine) {
  std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(tp.world_size()));
  std::vector<Span<std::byte>> places;
  for (int rank = 0; rank < tp.world_size(); ++rank) {
    places.push_back(
        std::as_writable_bytes(Span<std::int64_t>(all).subspan(rank * mine.size(), mine.size())));
  }
  tp.all_gather(std::as_bytes(Span<const std::int64_t>(mine)), places);
  return all;
}

/// Places, numbers of elements and owners of all TP ranks.
void gather_over_tp(Communicator& tp, PredictedMatrices& matrices) {
  std::vector<std::int64_t> words;
  for (const PredictedMatrix& matrix : matrices.all) {
    const PredictedMatrix::OnTpRank& mine = matrix.tp[matrices.tp_rank];
    words.insert(words.end(),
                 {mine.place.begin, mine.place.row_numel, mine.place.row_stride, mine.numel});
    for (int rank = 0; rank < matrices.ranks; ++rank) words.push_back(mine.owned[rank] ? 1 : 0);
  }
  const std::vector<std::int64_t> all = of_tp_ranks(tp, words);
  auto word = all.begin();
  for (int rank = 0; rank < tp.world_size(); ++rank) {
    for (PredictedMatrix& matrix : matrices.all) {
      PredictedMatrix::OnTpRank& one = matrix.tp[rank];
      one.place = {!matrix.split, word[0], word[1], word[2]};
      one.numel = word[3];
      one.owned.assign(word + 4, word + 4 + matrices.ranks);
      word += 4 + matrices.ranks;
    }
  }
}

}  // namespace

double newton_schulz_products(const PredictedMatrix& matrix, int iterations) {
  const auto of = [&](std::int64_t rows, std::int64_t columns) {
    const auto shorter = static_cast<double>(std::min(rows, columns));
    return iterations * (2 * newton_schulz_cost({rows, columns}) + shorter * shorter * shorter);
  };
  double sum = 0;
  for (const MatrixShape& part : parts_of(matrix)) sum += of(part.rows, part.columns);
  return sum;
}

void set_elements(PredictedMatrix& matrix, int tp_rank, int ranks, std::int64_t begin,
                  const Ownership* ownership) {
  PredictedMatrix::OnTpRank& mine = matrix.tp[tp_rank];
  mine.owned.assign(static_cast<std::size_t>(ranks), false);
  matrix.elements.clear();
  if (mine.numel == 0) return;
  if (ownership == nullptr) {
    matrix.elements.push_back({0, 0, mine.numel});
    mine.owned[0] = true;
    return;
  }
  ownership->parts({begin, begin + mine.numel}, [&](int rank, const FlatRange& part, std::int64_t) {
    matrix.elements.push_back({rank, part.begin - begin, part.numel()});
    mine.owned[rank] = true;
  });
}

std::vector<MatrixUse> predict_matrices(const PredictedMatrices& matrices) {
  if (matrices.all.empty()) return std::vector<MatrixUse>(static_cast<std::size_t>(matrices.ranks));
  return BatchWalk(matrices).all();
}

PredictedMatrices predicted_matrices(const OptimizerSetup& setup) {
  PredictedMatrices matrices;
  const bool shared = setup.stage > 0;
  matrices.ranks = shared ? setup.comm->world_size() : 1;
  if (shared) matrices.owners = setup.matrix_owners;
  matrices.tp_rank = setup.tp == nullptr ? 0 : setup.tp->rank();
  matrices.tensor_parallel = setup.matrix_tensor_parallel;
  matrices.newton_schulz = setup.hyper.muon.newton_schulz;
  const auto tp_ranks = static_cast<std::size_t>(setup.tp == nullptr ? 1 : setup.tp->world_size());
  const std::vector<TensorMatrix> wholes =
      setup.matrices.empty() ? matrices_of(*setup.layout) : setup.matrices;
  const MapOwnership ownership(*setup.shards);
  for (std::size_t t = 0; t < setup.matrix_tensors.size(); ++t) {
    if (!setup.matrix_tensors[t].is_matrix) continue;
    const TensorSlot& slot = setup.layout->tensors()[t];
    PredictedMatrix& matrix = matrices.all.emplace_back();
    matrix.whole = wholes[t];
    matrix.parts = setup.matrix_tensors[t];
    matrix.tp.resize(tp_ranks);
    const std::int64_t row = std::max<std::int64_t>(slot.numel, 1);
    const TensorPlacement place = setup.placement.empty() || setup.matrices.empty()
                                      ? TensorPlacement{true, slot.begin, row, row}
                                      : setup.placement[t];
    matrix.split = tp_ranks > 1 && !place.tp_replicated;
    matrix.tp[matrices.tp_rank].place = place;
    matrix.tp[matrices.tp_rank].numel = slot.numel;
    set_elements(matrix, matrices.tp_rank, matrices.ranks, slot.begin,
                 shared ? &ownership : nullptr);
  }
  if (tp_ranks > 1) gather_over_tp(*setup.tp, matrices);
  return matrices;
}

}  // namespace zeroproof
