#pragma once
// A process grid of threads that computes the parts of a gradient, and the literal tree that
// combines them.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/threads.hpp"
#include "tests/verification/model/byte_gpt_support.hpp"
#include "verification/model/byte_gpt_grid.hpp"

namespace zeroproof::workload {

/// cp * tp ranks, numbered c * tp + t, with a world for every TP and CP group.
class GridWorlds {
 public:
  GridWorlds(int cp, int tp) : cp_(cp), tp_(tp), all_(cp * tp, timeout) {
    for (int c = 0; c < cp; ++c) tp_groups_.push_back(std::make_unique<ThreadWorld>(tp, timeout));
    for (int t = 0; t < tp; ++t) cp_groups_.push_back(std::make_unique<ThreadWorld>(cp, timeout));
  }

  int cp() const { return cp_; }
  int tp() const { return tp_; }

  /// work(rank, groups) on every rank; groups of one rank are null.
  void run(const std::function<void(int, const ByteGptGroups&)>& work) {
    run_ranks(all_, [&](Communicator& world) {
      const int rank = world.rank();
      const auto tp = tp_groups_[rank / tp_]->communicator(rank % tp_);
      const auto cp = cp_groups_[rank % tp_]->communicator(rank / tp_);
      try {
        work(rank, {tp_ == 1 ? nullptr : tp.get(), cp_ == 1 ? nullptr : cp.get()});
      } catch (const Error& error) {
        tp->abort(error.what());
        cp->abort(error.what());
        throw;
      }
    });
  }

 private:
  static constexpr std::chrono::seconds timeout{60};
  int cp_;
  int tp_;
  ThreadWorld all_;
  std::vector<std::unique_ptr<ThreadWorld>> tp_groups_;
  std::vector<std::unique_ptr<ThreadWorld>> cp_groups_;
};

/// The tensors of one TP rank of a whole model.
template <class Real>
struct LocalModel {
  LocalModel(const Model<Real>& whole, int tp_size, int tp_rank)
      : layout(byte_gpt_tp_model(whole.shape, tp_size, tp_rank).params),
        places(byte_gpt_tp_model(whole.shape, tp_size, tp_rank).placement),
        params(static_cast<std::size_t>(layout.padded_numel())) {
    for (std::size_t k = 0; k < places.size(); ++k) {
      const TensorSlot& slot = layout.tensors()[k];
      for (std::int64_t e = 0; e < slot.numel; ++e) {
        params[slot.begin + e] = whole.params[places[k].global(e)];
      }
    }
  }

  FlatLayout layout;
  std::vector<TensorPlacement> places;
  std::vector<Real> params;
};

/// Losses and gradients of all ranks, c * tp + t.
template <class Real>
struct GridParts {
  std::vector<double> losses;
  std::vector<std::vector<Real>> grads;
};

template <class Real>
GridParts<Real> grid_parts(GridWorlds& worlds, const Model<Real>& model,
                           Span<const std::uint8_t> tokens, Real loss_scale, InstructionSet set) {
  const auto ranks = static_cast<std::size_t>(worlds.cp() * worlds.tp());
  GridParts<Real> parts{std::vector<double>(ranks), std::vector<std::vector<Real>>(ranks)};
  worlds.run([&](int rank, const ByteGptGroups& groups) {
    const LocalModel<Real> local(model, worlds.tp(), rank % worlds.tp());
    const auto k = static_cast<std::size_t>(rank);
    parts.grads[k].assign(local.params.size(), Real{7});  // old values must be overwritten
    parts.losses[k] =
        byte_gpt_grid_loss_and_grad<Real>(model.shape, groups, local.layout, local.params, tokens,
                                          loss_scale, Span<Real>(parts.grads[k]), set);
  });
  return parts;
}

/// The tree over `count` nodes, a power of two, implemented independently.
template <class Real>
Real literal_tree(const std::function<Real(int)>& node, int first, int count) {
  if (count == 1) return node(first);
  return literal_tree(node, first, count / 2) + literal_tree(node, first + count / 2, count / 2);
}

/// node(c, t), c and t from 0 to cp - 1 and tp - 1
template <class Real>
using PartFold = std::function<Real(const std::function<Real(int, int)>& node, int cp, int tp)>;

/// R11: tp first, then cp.
template <class Real>
Real contract_fold(const std::function<Real(int, int)>& node, int cp, int tp) {
  const std::function<Real(int)> over_tp = [&](int c) {
    const std::function<Real(int)> leaf = [&](int t) { return node(c, t); };
    return literal_tree(leaf, 0, tp);
  };
  return literal_tree(over_tp, 0, cp);
}

/// The fold of the parts of the gradient, in the numbering of the whole model: [padded_numel], 9
/// for elements without a rank. replicated folds the parts of tensors that every TP rank has.
template <class Real>
std::vector<Real> combined_leaf(const Model<Real>& model, const GridParts<Real>& parts, int cp,
                                int tp, const PartFold<Real>& replicated = contract_fold<Real>) {
  std::vector<Real> leaf(model.size(), Real{9});
  std::vector<LocalModel<Real>>
      locals;  // slices of odd tensors differ in size, so tensors start at other offsets
  for (int t = 0; t < tp; ++t) locals.emplace_back(model, tp, t);
  for (int t = 0; t < tp; ++t) {
    const LocalModel<Real>& local = locals[t];
    for (std::size_t k = 0; k < local.places.size(); ++k) {
      const TensorSlot& slot = local.layout.tensors()[k];
      const TensorPlacement& place = local.places[k];
      if (place.tp_replicated && t > 0) continue;
      for (std::int64_t e = 0; e < slot.numel; ++e) {
        const std::function<Real(int, int)> node = [&](int c, int part) {
          const int of = place.tp_replicated ? part : t;
          const std::int64_t begin = locals[of].layout.tensors()[k].begin;
          return parts.grads[c * tp + of][begin + e];
        };
        leaf[place.global(e)] =
            place.tp_replicated ? replicated(node, cp, tp) : contract_fold<Real>(node, cp, 1);
      }
    }
  }
  return leaf;
}

/// Names of tensors that differ in a bit (NaNs are one value), each followed by a space.
template <class Real>
std::string different_tensors(const Model<Real>& model, const std::vector<Real>& got,
                              const std::vector<Real>& expected) {
  std::string names;
  for (const TensorSlot& slot : model.layout.tensors()) {
    bool same = true;
    for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const bool nan = got[k] != got[k] && expected[k] != expected[k];
      same = same && (nan || std::memcmp(&got[k], &expected[k], sizeof(Real)) == 0);
    }
    if (!same) names += slot.name + " ";
  }
  return names;
}

}  // namespace zeroproof::workload
