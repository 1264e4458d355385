// Statistics of tensors by segments: cut at odd places, repeated, overlapping, missing, refused.

#include "cuda/device/grad_stats.hpp"

#include <algorithm>

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::int64_t num_tensors = 7;

/// Statistics on both sides, so that a write to the wrong tensor is detected.
constexpr std::int64_t num_beside = 2;
constexpr std::int64_t words_per_tensor = 3;
constexpr std::int64_t num_words = (num_tensors + 2 * num_beside) * words_per_tensor;

using Segments = std::vector<GradSegment>;

/// Numbers that depend on the call only.
class Draw {
 public:
  explicit Draw(const OpCall& call) : call_(call) {}

  std::int64_t below(std::int64_t bound) {
    const std::int64_t index = next_++;
    return bound > 0 ? static_cast<std::int64_t>(call_.words(0, index / 4, 1)[index % 4]) % bound
                     : 0;
  }

 private:
  const OpCall& call_;
  std::int64_t next_ = 0;
};

Segments whole(const OpCall& call, Draw&) { return {{0, call.numel(), 3}}; }

/// Tensors one after the other, with padding behind each, as a rank has them; some have no elements.
Segments in_a_row(const OpCall& call, Draw& draw) {
  Segments segments;
  std::int64_t begin = 0;
  for (std::int64_t tensor = 0; tensor < num_tensors; ++tensor) {
    const std::int64_t numel = tensor % 3 == 1 ? 0 : draw.below(call.numel() - begin + 1);
    segments.push_back({begin, numel, tensor});
    begin += numel + std::min(draw.below(5), call.numel() - begin - numel);
  }
  return segments;
}

/// Every tensor in many pieces, single elements and empty ones among them, in any order; the last tensor has none.
Segments pieces(const OpCall& call, Draw& draw) {
  constexpr std::int64_t most =
      300;  // the longest pieces of a large buffer come first, and its end is left out
  Segments segments;
  for (std::int64_t begin = 0; begin < call.numel() && std::ssize(segments) < most;) {
    const std::int64_t longest = std::ssize(segments) < 8 ? 1 + call.numel() / 5 : 3;
    const std::int64_t numel = std::min(draw.below(longest + 1), call.numel() - begin);
    segments.push_back({begin, numel, draw.below(num_tensors - 1)});
    begin += numel;
  }
  for (std::size_t i = segments.size(); i > 1; --i) {
    std::swap(segments[i - 1], segments[draw.below(static_cast<std::int64_t>(i))]);
  }
  return segments;
}

/// Any positions: overlapping, and the same one twice.
Segments overlapping(const OpCall& call, Draw& draw) {
  Segments segments = {{0, call.numel(), 2}};
  for (int i = 0; i < 12; ++i) {
    const std::int64_t begin = draw.below(call.numel() + 1);
    segments.push_back({begin, draw.below(call.numel() - begin + 1), draw.below(num_tensors)});
    if (i % 4 == 0) segments.push_back(segments.back());
  }
  return segments;
}

/// One tensor is nearly everything, the others one element each, at the ends of the buffer and in its middle.
Segments unequal(const OpCall& call, Draw& draw) {
  const std::int64_t numel = call.numel();
  if (numel == 0) return {};
  Segments segments = {{numel - 1, 1, 0}, {0, 1, 1}, {draw.below(numel), 1, 2}, {numel / 2, 1, 4}};
  segments.push_back({std::min<std::int64_t>(1, numel), std::max<std::int64_t>(numel - 2, 0), 6});
  return segments;
}

Segments none(const OpCall&, Draw&) { return {}; }

/// Good segments with one among them that an implementation must refuse.
Segments illegal(const OpCall& call, Draw& draw) {
  const std::int64_t numel = call.numel();
  const GradSegment bad[] = {{0, numel + 1, 0},
                             {numel, 1, 1},
                             {numel + 1, 0, 1},
                             {-1, 1, 2},
                             {0, -1, 2},
                             {0, numel, num_tensors},
                             {0, 0, num_tensors},
                             {0, numel, -1},
                             {numel / 2, INT64_MAX, 0},
                             {INT64_MAX, 1, 0},
                             {numel / 2, numel / 2, INT64_MAX},
                             {INT64_MIN, 0, 0}};
  Segments segments = in_a_row(call, draw);
  const std::int64_t at = draw.below(std::ssize(segments) + 1);
  segments.insert(segments.begin() + at, bad[draw.below(std::ssize(bad))]);
  return segments;
}

struct Cut {
  const char* name;
  Segments (*segments)(const OpCall&, Draw&);
  bool from_zero;
};

constexpr Cut cuts[] = {{"one segment", whole, true},
                        {"tensors in a row", in_a_row, true},
                        {"tensors in a row onto something", in_a_row, false},
                        {"pieces in any order", pieces, true},
                        {"overlapping onto something", overlapping, false},
                        {"very unequal", unequal, true},
                        {"no segments onto something", none, false},
                        {"refused", illegal, false}};

/// Counts above 32 bits, and a magnitude that some gradients exceed.
GradStats something(std::int64_t tensor) {
  const auto t = static_cast<std::uint64_t>(tensor);
  return {tensor % 3 == 0 ? 0x7FFFFFFFU : 0x3A83126FU, (t << 32) + 5, 0xFFFFFFFFU - t};
}

void put_stats(Span<const GradStats> stats, Span<std::uint64_t> words) {
  for (std::size_t i = 0; i < stats.size(); ++i) {
    words[3 * i] = stats[i].amax;
    words[3 * i + 1] = stats[i].num_nonfinite;
    words[3 * i + 2] = stats[i].num_zeros;
  }
}

OpFunction run(GradStatsFn* implementation) {
  return [implementation](OpCall& call) {
    const Cut& cut = cuts[call.variant()];
    Draw draw(call);
    const Segments segments = cut.segments(call, draw);
    std::vector<GradStats> stats(num_tensors + 2 * num_beside);
    for (std::int64_t i = 0; i < std::ssize(stats); ++i) {
      const bool beside = i < num_beside || i >= num_beside + num_tensors;
      if (beside || !cut.from_zero) stats[i] = something(i);
    }
    const Span<GradStats> inside = Span<GradStats>(stats).subspan(num_beside, num_tensors);
    call.get<std::uint32_t>(2)[0] =
        refused([&] { implementation(call.exec, call.in<float>(0), segments, inside); });
    put_stats(stats, call.get<std::uint64_t>(1));
  };
}

}  // namespace

std::vector<Op> grad_stats_ops() {
  Op op;
  op.name = "grad_stats";
  op.contract = "grad_stats.hpp";
  op.type = "GradStatsFn";
  op.exactness = Exactness::integer;
  op.phases = {Phase::unscale};
  for (const Cut& cut : cuts) op.variants.emplace_back(cut.name);
  op.operands = {input("grad"), fixed(output("stats", DType::u64), num_words),
                 fixed(output("refused", DType::u32), 1)};
  op.fills = number_fills();
  op.fills.push_back(Fill::patterns);
  op.reference = run(reference::grad_stats);
  op.host = run(cuda::host::grad_stats);
  op.device = run(on_device<cuda::device::grad_stats>);
  return {op};
}

}  // namespace zeroproof::verification
