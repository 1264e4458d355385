#include "verification/tools/plan/planned_matrices.hpp"

#include <algorithm>
#include <string>

#include "common/base/error.hpp"
#include "common/layout/tp_cut.hpp"
#include "common/step/tensor_match.hpp"
#include "verification/tools/plan/predict/matrix_use.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* usual_adamw[] = {"*embed*", "*head*", "*wte*", "*wpe*"};

/// Owners of the contract's layout, without a shard map: slices of buckets (R13).
class ContractOwnership final : public Ownership {
 public:
  ContractOwnership(std::int64_t padded_numel, int ranks, std::int64_t bucket_numel)
      : padded_numel_(padded_numel), ranks_(ranks), bucket_numel_(bucket_numel) {}

  void parts(const FlatRange& stretch, const Use& use) const override {
    FlatRange next{stretch.begin, stretch.begin};
    int owner = -1;
    while (next.end < stretch.end) {
      const FlatRange slice = slice_at(next.end);
      const int rank = rank_at(next.end);
      if (rank != owner && next.numel() > 0) {
        use(owner, next, 0);
        next.begin = next.end;
      }
      owner = rank;
      next.end = std::min(slice.end, stretch.end);
    }
    if (next.numel() > 0) use(owner, next, 0);
  }

 private:
  FlatRange bucket_at(std::int64_t element) const {
    const std::int64_t begin = element / bucket_numel_ * bucket_numel_;
    return {begin, std::min(begin + bucket_numel_, padded_numel_)};
  }
  /// The rank r with floor(chunks r / ranks) <= chunk < floor(chunks (r + 1) / ranks).
  int rank_at(std::int64_t element) const {
    const FlatRange bucket = bucket_at(element);
    const std::int64_t chunks = bucket.numel() / layout_alignment;
    const std::int64_t chunk = (element - bucket.begin) / layout_alignment;
    return static_cast<int>(((chunk + 1) * ranks_ + chunks - 1) / chunks - 1);
  }
  FlatRange slice_at(std::int64_t element) const {
    return contract_slice(bucket_at(element), ranks_, rank_at(element));
  }

  const std::int64_t padded_numel_;
  const int ranks_;
  const std::int64_t bucket_numel_;
};

int matrix_ranks_of(const PlanSettings& settings, int stage) {
  return stage == 0 ? 1 : settings.grid.data_ranks() / settings.instances;
}

/// The matrices without their elements on ranks.
std::vector<PredictedMatrix> whole_matrices(const PlanSettings& settings,
                                            const PlannedModel& model) {
  const FlatLayout undistributed(tp_shapes(model, 1));
  const std::vector<TensorMatrix> wholes = matrices_of(undistributed);
  const std::vector<MatrixTensor> tensors = planned_matrix_tensors(settings, model);
  std::vector<PredictedMatrix> matrices;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (!tensors[t].is_matrix) continue;
    PredictedMatrix& matrix = matrices.emplace_back();
    matrix.whole = wholes[t];
    matrix.parts = tensors[t];
    matrix.split = settings.grid.tp > 1 && model.tensors[t].tp_cut >= 0;
    matrix.tp.resize(static_cast<std::size_t>(settings.grid.tp));
  }
  return matrices;
}

}  // namespace

std::vector<MatrixTensor> planned_matrix_tensors(const PlanSettings& settings,
                                                 const PlannedModel& model) {
  const FlatLayout undistributed(tp_shapes(model, 1));
  std::vector<std::string> adamw = settings.adamw;
  for (const char* glob : usual_adamw) {
    const bool found = std::ranges::any_of(undistributed.tensors(), [&](const TensorSlot& tensor) {
      return tensor.shape.size() == 2 && matches_tensor({glob}, false, tensor);
    });
    if (settings.adamw.empty() && found) adamw.emplace_back(glob);
  }
  return make_matrix_tensors(adamw, settings.matrix_splits, undistributed);
}

std::vector<MatrixUse> planned_matrices(const PlanSettings& settings, const PlannedModel& model,
                                        const FlatLayout& layout, int stage) {
  if (!traits_of(settings.hyper.rule).matrices) return {};
  PredictedMatrices matrices;
  matrices.all = whole_matrices(settings, model);
  matrices.ranks = matrix_ranks_of(settings, stage);
  if (stage > 0) matrices.owners = settings.matrix_owners;
  matrices.tensor_parallel = settings.matrix_tensor_parallel;
  matrices.newton_schulz = settings.hyper.muon.newton_schulz;
  const ContractOwnership ownership(layout.padded_numel(), matrices.ranks, settings.bucket_numel);
  const std::vector<MatrixTensor> tensors = planned_matrix_tensors(settings, model);
  const std::vector<ParamSpec> undistributed = tp_shapes(model, 1);
  std::vector<int> cuts;
  for (const PlannedTensor& tensor : model.tensors) cuts.push_back(tensor.tp_cut);
  for (int rank = settings.grid.tp - 1; rank >= 0; --rank) {  // elements of rank 0 stay
    const TpModel tp = make_tp_model(undistributed, cuts, settings.grid.tp, rank);
    std::size_t i = 0;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (!tensors[t].is_matrix) continue;
      PredictedMatrix& matrix = matrices.all[i++];
      const TensorSlot& slot = layout.tensors()[t];  // TP ranks have equal parts
      const std::int64_t row = std::max<std::int64_t>(slot.numel, 1);
      matrix.tp[rank].place =
          settings.grid.tp == 1 ? TensorPlacement{true, slot.begin, row, row} : tp.placement[t];
      matrix.tp[rank].numel = slot.numel;
      set_elements(matrix, rank, matrices.ranks, slot.begin, stage > 0 ? &ownership : nullptr);
    }
  }
  return predict_matrices(matrices);
}

MatrixBalance balance_of(const PlanSettings& settings, const PlannedModel& model,
                         const std::vector<MatrixUse>& uses, int stage) {
  MatrixBalance balance;
  const std::vector<PredictedMatrix> matrices = whole_matrices(settings, model);
  std::vector<MatrixShape> shapes;
  for (const PredictedMatrix& matrix : matrices) {
    shapes.push_back({matrix.whole.rows, matrix.whole.columns});
    balance.numel += matrix.whole.rows * matrix.whole.columns;
  }
  balance.matrices = static_cast<std::int64_t>(matrices.size());
  const auto by = [&](auto MatrixUse::*member) {
    const auto [least, most] = std::ranges::minmax_element(uses, {}, member);
    return std::pair((*least).*member, (*most).*member);
  };
  std::tie(balance.least_computed, balance.most_computed) = by(&MatrixUse::matrices);
  std::tie(balance.least_products, balance.most_products) = by(&MatrixUse::products);
  std::tie(balance.least_whole_bytes, balance.most_whole_bytes) = by(&MatrixUse::whole_bytes);
  std::tie(balance.least_work_bytes, balance.most_work_bytes) = by(&MatrixUse::work_bytes);
  for (const MatrixUse& use : uses)
    balance.mean_products += use.products / static_cast<double>(uses.size());
  if (stage == 0 || settings.matrix_owners == MatrixOwners::every || balance.numel == 0)
    return balance;
  const int ranks = matrix_ranks_of(settings, stage);
  std::vector<std::int64_t> owned(static_cast<std::size_t>(ranks));
  const std::vector<int> owners = owners_of_matrices(settings.matrix_owners, shapes, ranks);
  for (std::size_t i = 0; i < shapes.size(); ++i)
    owned[owners[i]] += shapes[i].rows * shapes[i].columns;
  balance.most_numel_over_mean = static_cast<double>(*std::ranges::max_element(owned)) *
                                 static_cast<double>(ranks) / static_cast<double>(balance.numel);
  return balance;
}

}  // namespace zeroproof::verification
