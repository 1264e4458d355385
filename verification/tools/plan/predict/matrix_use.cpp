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
        tp_runs_(tp_numel_.size()) {
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
    return std::move(uses_);
  }

 private:
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
    return counts ? matrix.whole.rows * matrix.whole.columns : 0;
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
      whole_numel_[rank] += matrix.whole.rows * matrix.whole.columns;
      if (returns() ? mine.numel > 0 : mine.owned[rank]) {
        ++uses_[rank].matrices;
        uses_[rank].products += newton_schulz_products(matrix, matrices_.iterations);
      }
      for (std::size_t tp = 0; matrix.split && tp < matrix.tp.size(); ++tp) {
        const std::size_t at = rank * matrix.tp.size() + tp;
        tp_numel_[at] += matrix.tp[tp].numel;
        tp_runs_[at] += runs_of(matrix, matrix.tp[tp].place, 0, matrix.tp[tp].numel);
      }
    }
    for (const PredictedMatrix::Elements& elements : matrix.elements) {
      const int runs = runs_of(matrix, mine.place, elements.begin, elements.numel);
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

  void end_batch() {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      MatrixUse& use = uses_[rank];
      use.whole_bytes = std::max(use.whole_bytes, matrix_element_bytes * whole_numel_[rank]);
      if (moves_) exchange(rank, use);
      complete_over_tp(rank, use);
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
  bool moves_ = false;
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
  const TensorMatrix& whole = matrix.whole;
  if (matrix.parts.widths.empty()) return of(whole.rows, whole.columns);
  const std::int64_t period =
      std::accumulate(matrix.parts.widths.begin(), matrix.parts.widths.end(), std::int64_t{0});
  double sum = 0;
  for (const std::int64_t width : matrix.parts.widths) {
    sum += matrix.parts.by_columns ? of(whole.rows, whole.columns / period * width)
                                   : of(whole.rows / period * width, whole.columns);
  }
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
  matrices.iterations = setup.hyper.muon.newton_schulz.steps;
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
