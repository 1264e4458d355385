#include "reference/zero/sharded/tp_parts.hpp"

#include "reference/buffers.hpp"
#include "reference/operations.hpp"
#include "reference/zero/sharded/messages.hpp"
#include "reference/zero/sharded/placement.hpp"
#include "reference/zero/sharded/ranks.hpp"

namespace zeroproof::reference {

void combine_tp_parts(const OptimizerSetup& setup, const FlatRange& unit,
                      std::vector<float>& grad) {
  if (tp_size(setup) == 1) return;
  FlatRanges replicated;
  for (const Piece& piece : setup.layout->pieces({unit})) {
    if (!is_tp_replicated(setup, piece.tensor)) continue;
    replicated.push_back({piece.global_begin, piece.global_begin + piece.numel});
  }
  if (replicated.empty()) return;

  const RangedView whole{array_view(grad), {unit}};
  const std::int64_t numel = numel_of(replicated);
  const std::vector<Message> recv =
      gather_all(*setup.tp, pack(whole, replicated),
                 std::vector<std::int64_t>(tp_size(setup), numel * num_bytes(DType::fp32)));
  std::vector<std::vector<float>> parts;
  for (const Message& message : recv) {
    Span<const std::byte> rest = message;
    parts.push_back(take_floats(rest, numel));
  }
  const std::vector<Span<const float>> views(parts.begin(), parts.end());
  std::vector<float> sum(numel);
  grad_sum({}, views, sum);
  unpack(std::as_bytes(Span<const float>(sum)), replicated, whole);
}

}  // namespace zeroproof::reference
