#pragma once
// Process grids of threads with groups made by hand, and a model that tensor parallelism cuts.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reference/grad_sum.hpp"
#include "tests/reference/distributed_support.hpp"

namespace zeroproof::tests {

struct Grid {
  int instances = 1;
  int ranks = 1;  ///< of one instance, for one TP rank
  int tp = 1;
  int cp = 1;
};

inline std::string to_string(const Grid& grid) {
  return "instances " + std::to_string(grid.instances) + ", ranks " + std::to_string(grid.ranks) + ", tp " +
         std::to_string(grid.tp) + ", cp " + std::to_string(grid.cp);
}

/// Where one thread stands; groups of one rank may be null.
struct GridPlace {
  int instance = 0;
  int rank = 0;
  int tp_rank = 0;
  int number = 0;  ///< among all threads
  Communicator* comm = nullptr;
  Communicator* replicas = nullptr;
  Communicator* tp = nullptr;
};

/// Calls work on every rank of the grid.
inline void run_grid(const Grid& grid, const std::function<void(const GridPlace&)>& work) {
  constexpr std::chrono::milliseconds timeout{20'000};
  const auto worlds = [&](int count, int size) {
    std::vector<ThreadWorld> made;
    for (int i = 0; i < count; ++i) made.emplace_back(size, timeout);
    return made;
  };
  std::vector<ThreadWorld> comms = worlds(grid.tp * grid.instances, grid.ranks);
  std::vector<ThreadWorld> replicas = worlds(grid.tp * grid.ranks, grid.instances);
  std::vector<ThreadWorld> tps = worlds(grid.instances * grid.ranks, grid.tp);
  ThreadWorld all(grid.instances * grid.ranks * grid.tp, timeout);
  run_ranks(all, [&](Communicator& self) {
    GridPlace place;
    place.number = self.rank();
    place.tp_rank = self.rank() % grid.tp;
    place.rank = self.rank() / grid.tp % grid.ranks;
    place.instance = self.rank() / grid.tp / grid.ranks;
    const auto member = [](std::vector<ThreadWorld>& groups, int group, int rank) {
      return groups[static_cast<std::size_t>(group)].communicator(rank);
    };
    const auto comm = member(comms, place.tp_rank * grid.instances + place.instance, place.rank);
    const auto replica = member(replicas, place.tp_rank * grid.ranks + place.rank, place.instance);
    const auto tp = member(tps, place.instance * grid.ranks + place.rank, place.tp_rank);
    place.comm = comm.get();
    place.replicas = grid.instances > 1 ? replica.get() : nullptr;
    place.tp = grid.tp > 1 ? tp.get() : nullptr;
    work(place);
  });
}

/// One vector that every TP rank has, a matrix cut by columns, one cut by rows, a single number, and a larger vector.
struct CutModel {
  explicit CutModel(int tp)
      : tp(tp), whole({{"v", {37}}, {"columns", {50, 24}}, {"rows", {16, 70}}, {"one", {}}, {"w", {1100}}}) {}

  FlatLayout layout() const {
    return FlatLayout(
        {{"v", {37}}, {"columns", {50, 24 / tp}}, {"rows", {16 / tp, 70}}, {"one", {}}, {"w", {1100}}});
  }

  std::vector<TensorPlacement> placement(int tp_rank) const {
    std::vector<TensorPlacement> places;
    for (const TensorSlot& slot : whole.tensors())
      places.push_back({true, slot.begin, slot.numel, slot.numel});
    const std::int64_t rows_numel = 16 / tp * 70;
    places[1] = {false, places[1].begin + tp_rank * (24 / tp), 24 / tp, 24};
    places[2] = {false, places[2].begin + tp_rank * rows_numel, rows_numel, rows_numel};
    return places;
  }

  int tp;
  FlatLayout whole;  ///< undistributed
};

/// Parts of leaves: (step, leaf u of the tree, TP rank) give every element its value, in the leaf dtype.
class PartSource final : public LeafSource, public LayeredModel {
 public:
  PartSource(const CutModel& model, const Grid& grid, int cp_rank, int tp_rank, DType dtype)
      : model_(model),
        grid_(grid),
        cp_rank_(cp_rank),
        tp_rank_(tp_rank),
        layout_(model.layout()),
        placement_(model.placement(tp_rank)),
        dtype_(dtype) {
    const std::int64_t middle = layout_.tensors()[2].begin;
    units_ = {{0, middle}, {middle, layout_.padded_numel()}};
  }

  std::int64_t step = 0;
  int log2_scale = 0;
  std::int64_t micro_batches = 1;
  bool overflow = false;  ///< one element of a cut tensor, on the last TP rank alone
  bool gaps = false;      ///< tensor 3 gets its gradient from one rank alone, and in every second step
  bool layered = false;

  std::int64_t num_tokens(std::int64_t micro_batch) const override { return micro_batch + 1; }
  bool has_grad(std::int64_t micro_batch, std::int64_t tensor) const override {
    const bool chosen = micro_batch == 0 && cp_rank_ == grid_.cp - 1 && tp_rank_ == grid_.tp - 1;
    return !gaps || tensor != 3 || (step % 2 == 0 && chosen);
  }

  TensorView leaf(std::int64_t micro_batch) override {
    values_ = part(micro_batch);
    buffer_ = reference::ParamBuffer(dtype_, layout_.padded_numel());
    buffer_.round_from(values_, pieces());
    return buffer_.view();
  }

  LayeredModel* layers() override { return layered ? this : nullptr; }
  const std::vector<FlatRange>& units() const override { return units_; }
  const std::vector<int>& visits() const override { return visits_; }
  void begin(std::int64_t micro_batch) override { leaf(micro_batch); }
  void forward(int, const TensorView&) override {}
  void backward(int unit, const TensorView&, const TensorView& grad) override {
    const FlatRange& range = units_[static_cast<std::size_t>(unit)];
    const TensorView whole = buffer_.view();
    std::memcpy(grad.data, static_cast<std::byte*>(whole.data) + range.begin * num_bytes(dtype_),
                static_cast<std::size_t>(grad.num_bytes()));
  }

  /// What this rank supplies of a micro-batch, [padded_numel] of its own layout, as exact as its dtype.
  std::vector<float> part(std::int64_t micro_batch) const {
    std::vector<float> values = reference::nan_buffer(layout_.padded_numel());
    const auto leaf = static_cast<std::uint64_t>(micro_batch * grid_.cp + cp_rank_);
    for (const Piece& piece : pieces()) {
      const TensorPlacement& place = placement_[static_cast<std::size_t>(piece.tensor)];
      const std::uint64_t of_tp_rank = place.tp_replicated ? static_cast<std::uint64_t>(tp_rank_) : 0;
      const std::uint64_t seed = 10000 + 1000 * static_cast<std::uint64_t>(step) + 10 * leaf + of_tp_rank;
      const std::vector<float>& random = shared_random_values(model_.whole.padded_numel(), seed, 6);
      for (std::int64_t e = 0; e < piece.numel; ++e) {
        float value = std::ldexp(random[static_cast<std::size_t>(place.global(e))], log2_scale);
        if (e % 11 == 3) value = -0.0F;
        if (!has_grad(micro_batch, piece.tensor)) value = 0.0F;
        const bool last =
            micro_batch == micro_batches - 1 && cp_rank_ == grid_.cp - 1 && tp_rank_ == grid_.tp - 1;
        if (overflow && last && piece.tensor == 1 && e == 0) value = inf32;
        values[static_cast<std::size_t>(piece.local_begin + e)] = value;
      }
    }
    reference::ParamBuffer rounded(dtype_, layout_.padded_numel());
    rounded.round_from(values, pieces());
    return reference::widen_leaf(rounded.view(), pieces());
  }

  const std::vector<TensorPlacement>& placement() const { return placement_; }
  std::vector<Piece> pieces() const { return layout_.pieces({{0, layout_.padded_numel()}}); }

 private:
  const CutModel& model_;
  Grid grid_;
  int cp_rank_, tp_rank_;
  FlatLayout layout_;
  std::vector<TensorPlacement> placement_;
  DType dtype_;
  std::vector<FlatRange> units_;
  std::vector<int> visits_ = {0, 1};
  std::vector<float> values_;
  reference::ParamBuffer buffer_;
};

/// Leaf u of the undistributed model: what the TP ranks have, put together, and where all of them have a part, added up.
inline std::vector<float> undistributed_leaf(const CutModel& model, const std::vector<PartSource>& of_tp_rank,
                                             std::int64_t micro_batch) {
  std::vector<float> leaf = reference::nan_buffer(model.whole.padded_numel());
  std::vector<std::vector<float>> parts;
  for (const PartSource& source : of_tp_rank) parts.push_back(source.part(micro_batch));
  for (std::size_t t = 0; t < of_tp_rank.size(); ++t) {
    for (const Piece& piece : of_tp_rank[t].pieces()) {
      const TensorPlacement& place = of_tp_rank[t].placement()[static_cast<std::size_t>(piece.tensor)];
      for (std::int64_t e = 0; e < piece.numel; ++e) {
        const std::size_t local = static_cast<std::size_t>(piece.local_begin + e);
        float& target = leaf[static_cast<std::size_t>(place.global(e))];
        target = parts[t][local];
        if (!place.tp_replicated) continue;
        // The element has the same local index on every TP rank, because all of them have the same shapes.
        std::vector<Span<const float>> views;
        for (const std::vector<float>& other : parts)
          views.push_back(Span<const float>(other).subspan(local, 1));
        reference::grad_sum({}, views, {&target, 1});
      }
    }
  }
  return leaf;
}

}  // namespace zeroproof::tests
