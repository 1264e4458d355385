#include "verification/compare/judge/lacking_norm.hpp"

#include <cstdio>
#include <cstring>

#include "reference/norm_form.hpp"
#include "reference/operations.hpp"

namespace zeroproof::verification {
namespace {

/// A part that a norm may omit.
struct Part {
  std::string name;
  NormLimbs limbs;
};

NormLimbs sum(const NormLimbs& a, const NormLimbs& b) {
  NormLimbs total = a;
  for (std::size_t i = 0; i < total.limbs.size(); ++i) total.limbs[i] += b.limbs[i];
  total.nan_count += b.nan_count;
  total.inf_count += b.inf_count;
  reference::grad_norm_normalise(total);
  return total;
}

NormLimbs limbs_of(NormForm form, Span<const float> values) {
  reference::PartialNorm norm;
  reference::accumulate(form, values, norm);
  reference::grad_norm_normalise(norm.limbs);
  return norm.limbs;
}

/// The elements of a norm: those of one clip group.
struct Of {
  NormForm form;
  const ClipGroups& groups;
  int group;
  Span<const float> grad;

  bool has(const Piece& piece) const { return groups.of(piece.tensor) == group; }
};

void add_tensors(const FlatLayout& layout, const Of& of, std::vector<Part>& parts) {
  for (const Piece& piece : layout.pieces({{0, layout.padded_numel()}})) {
    if (!of.has(piece)) continue;
    const auto begin = static_cast<std::size_t>(piece.global_begin);
    parts.push_back({layout.tensors()[piece.tensor].name,
                     limbs_of(of.form, of.grad.subspan(begin, piece.numel))});
  }
}

/// The elements that a rank owns of every tensor, and all of them together.
void add_rank(const CaseLayout& layout, int rank, const Of& of, std::vector<Part>& parts) {
  const RankCoords place = layout.place(rank);
  const CaseLayout::Local& local = layout.local(place.tp_rank);
  const std::string who = "rank " + std::to_string(rank);
  Part everything{"everything of " + who, {}};
  for (const Piece& piece : local.layout.pieces(local.shards.shard(place.shard_rank))) {
    if (!of.has(piece)) continue;
    std::vector<float> values;
    layout.for_runs(place.tp_rank, piece,
                    [&](std::int64_t, std::int64_t global, std::int64_t numel) {
                      const auto from = of.grad.subspan(global, numel);
                      values.insert(values.end(), from.begin(), from.end());
                    });
    const std::string& tensor = local.layout.tensors()[piece.tensor].name;
    parts.push_back({"the part of " + who + " of " + tensor, limbs_of(of.form, values)});
    everything.limbs = sum(everything.limbs, parts.back().limbs);
  }
  parts.push_back(std::move(everything));
}

}  // namespace

std::string describe_lacking(const CaseLayout& layout, int world_size, NormForm form,
                             const ClipGroups& groups, const reference::DenseOptimizer& truth,
                             const TensorView& limbs) {
  const TensorView grad = truth.buffer(BufferId::unscaled_grad);
  const TensorView whole = truth.buffer(BufferId::norm_limbs);
  const auto count = static_cast<std::size_t>(groups.count());
  if (whole.data == nullptr ||
      limbs.num_bytes() != static_cast<std::int64_t>(count * sizeof(NormLimbs)))
    return {};
  NormLimbs want, got;
  std::size_t group = 0;
  for (; group < count; ++group) {
    std::memcpy(&want, static_cast<const NormLimbs*>(whole.data) + group, sizeof(want));
    std::memcpy(&got, static_cast<const NormLimbs*>(limbs.data) + group, sizeof(got));
    if (got != want) break;
  }
  if (group == count) return {};
  const Span<const float> values{static_cast<const float*>(grad.data),
                                 static_cast<std::size_t>(grad.numel)};
  std::vector<Part> parts;
  const Of of{form, groups, static_cast<int>(group), values};
  add_tensors(truth.layout(), of, parts);
  for (int rank = 0; rank < world_size; ++rank) {
    if (layout.place(rank).instance == 0) add_rank(layout, rank, of, parts);
  }
  for (const Part& part : parts) {
    if (part.limbs == NormLimbs{}) continue;  // a tensor of zeros does not contribute
    const char* verb = nullptr;
    if (sum(got, part.limbs) == want) verb = "lacks";
    if (sum(want, part.limbs) == got) verb = "counts twice";
    if (got == part.limbs && got != want) verb = "has nothing but";
    if (verb == nullptr) continue;
    char norm[32];
    std::snprintf(norm, sizeof(norm), "%.4g", reference::finish(form, {part.limbs, 0}));
    return std::string(", it ") + verb + " " + part.name + ", whose norm is " + norm;
  }
  return {};
}

}  // namespace zeroproof::verification
