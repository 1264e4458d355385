#include "reference/stored_state.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/layout/joined_ranges.hpp"
#include "common/step/state_buffers.hpp"
#include "reference/blocks.hpp"
#include "reference/buffers.hpp"
#include "reference/formats/fp8.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

constexpr std::uint32_t infinite_state = 0x7F800000U;

/// R22's recipe `current`, without epsilon and not a power of two.
float state_scale(StateFormat format, std::uint32_t amax) {
  if (amax == 0 || amax >= infinite_state) return 1;
  const float s = largest_of(format) / std::bit_cast<float>(amax);
  return std::isinf(s) ? std::numeric_limits<float>::max() : s;
}

// The casts of a format by the type of its codes. A moment that is not finite stays not finite:
// e4m3 does not saturate here.
void code(Span<const float> source, Span<bf16> target) { cast_to_bf16({}, source, target); }
void code(Span<const float> source, Span<fp16> target) { cast_to_fp16({}, source, target); }
void code(Span<const float> source, Span<e4m3> target) {
  nonfinite_cast_to_e4m3({}, source, target);
}
void decode(Span<const bf16> source, Span<float> target) { widen_bf16({}, source, target); }
void decode(Span<const fp16> source, Span<float> target) { widen_fp16({}, source, target); }
void decode(Span<const e4m3> source, Span<float> target) { widen_e4m3({}, source, target); }

}  // namespace

std::vector<FlatRange> blocks_with_elements(const std::vector<Piece>& pieces) {
  std::vector<FlatRange> all;
  for (const Piece& piece : pieces) {
    all.push_back({piece.global_begin / state_block_numel,
                   (piece.global_begin + piece.numel - 1) / state_block_numel + 1});
  }
  return joined_ranges(std::move(all));
}

StoredBuffer::StoredBuffer(StateFormat format, std::int64_t numel,
                           const std::vector<FlatRange>& blocks)
    : format_(format) {
  const auto make = [&](auto of_format) {
    using Format = decltype(of_format);
    using T = typename Format::type;
    codes_ = std::vector<T>(numel,
                            std::bit_cast<T>(Format::magnitude));  // NaN
  };
  if (format == StateFormat::bf16) make(Format<bf16>{});
  if (format == StateFormat::fp16) make(Format<fp16>{});
  if (format == StateFormat::e4m3) make(Format<e4m3>{});
  if (!zeroproof::has_scales(format)) return;
  blocks_ = blocks;
  std::int64_t count = 0;
  for (const FlatRange& range : blocks_) count += range.numel();
  scale_inv_ = nan_buffer(count);
}

std::size_t StoredBuffer::place_of(std::int64_t block) const {
  std::int64_t before = 0;
  for (const FlatRange& range : blocks_) {
    if (block < range.end) return static_cast<std::size_t>(before + block - range.begin);
    before += range.numel();
  }
  fail(ErrorCode::internal, "a rank has no scale of block " + std::to_string(block),
       "it has elements of this block", "report this as a defect");
}

template <class Body>
void StoredBuffer::for_blocks(const std::vector<Piece>& pieces, const Body& body) {
  for (const Piece& piece : pieces) {
    for (std::int64_t done = 0; done < piece.numel;) {
      const std::int64_t index = piece.global_begin + done;
      const Piece part = piece.part(done, state_block_numel - index % state_block_numel);
      body(index / state_block_numel, part);
      done += part.numel;
    }
  }
}

void StoredBuffer::read(const std::vector<Piece>& pieces, std::vector<float>& values) const {
  std::visit(
      [&](const auto& codes) {
        using T = typename std::decay_t<decltype(codes)>::value_type;
        for_blocks(pieces, [&](std::int64_t block, const Piece& part) {
          const Span<float> x = at(values, part);
          decode(reference::part(Span<const T>(codes), part.local_begin, part.numel), x);
          if (!zeroproof::has_scales(format_)) return;
          const float scale_inv = scale_inv_[place_of(block)];
          as_array(x) *= scale_inv;
        });
      },
      codes_);
}

void StoredBuffer::collect(const std::vector<Piece>& pieces, Span<const float> values,
                           BlockAmax& amax) const {
  if (!zeroproof::has_scales(format_)) return;
  for_blocks(pieces, [&](std::int64_t block, const Piece& part) {
    grad_max_accumulate({}, at(values, part), amax[block]);
  });
}

void StoredBuffer::store(const std::vector<Piece>& pieces, Span<const float> values,
                         const BlockAmax& amax) {
  for_blocks(pieces, [&](std::int64_t block, const Piece& part) {
    if (!zeroproof::has_scales(format_)) return encode(part, 1, values);
    const float scale = state_scale(format_, amax.at(block));
    scale_inv_[place_of(block)] = 1 / scale;
    encode(part, scale, values);
  });
}

void StoredBuffer::take(const std::vector<Piece>& pieces, Span<const float> codes,
                        Span<const float> scale_inv) {
  const std::vector<FlatRange> own = blocks_with_elements(pieces);
  const std::int64_t needed = own.empty() ? 0 : own.back().end;
  ZP_CHECK(numel(scale_inv) >= needed, ErrorCode::invalid_argument,
           "a loaded state has scales of " + std::to_string(scale_inv.size()) + " blocks",
           "block " + std::to_string(needed - 1) + " has codes and no scale",
           "pass one for every block of the undistributed numbering");
  for_blocks(pieces, [&](std::int64_t block, const Piece& part) {
    scale_inv_[place_of(block)] = scale_inv[block];
    encode(part, 1, codes);  // a code, widened, is cast to itself
  });
}

void StoredBuffer::encode(const Piece& part, float scale, Span<const float> values) {
  std::visit(
      [&](auto& codes) {
        using T = typename std::decay_t<decltype(codes)>::value_type;
        const Block y = as_array(at(values, part)) * scale;
        code(Span<const float>(y.data(), static_cast<std::size_t>(y.size())),
             reference::part(Span<T>(codes), part.local_begin, part.numel));
      },
      codes_);
}

TensorView StoredBuffer::codes() const {
  return std::visit(
      [&](const auto& codes) {
        using T = typename std::decay_t<decltype(codes)>::value_type;
        return TensorView{const_cast<T*>(codes.data()), dtype_of(format_),
                          static_cast<std::int64_t>(codes.size())};
      },
      codes_);
}

ExposedBuffer StoredBuffer::scales(StateSlot slot) const {
  return {scales_of(slot), array_view(scale_inv_), blocks_};
}

StoredState::StoredState(const StepSettings& settings, std::int64_t numel,
                         const std::vector<FlatRange>& blocks)
    : matrix_tensors_(settings.matrix_tensors) {
  for (const StateSlot slot : kept_slots(settings.hyper)) {
    const StateFormat format = settings.state_formats.of(slot);
    if (format != StateFormat::fp32) buffers_.emplace(slot, StoredBuffer(format, numel, blocks));
  }
}

std::vector<Piece> StoredState::in_use(StateSlot slot, const std::vector<Piece>& pieces) const {
  if (slot != StateSlot::exp_avg_sq || matrix_tensors_.empty()) return pieces;
  // That of a matrix keeps its bits (R28): storing what was read could change them.
  std::vector<Piece> used;
  std::ranges::copy_if(pieces, std::back_inserter(used), [this](const Piece& piece) {
    return !matrix_tensors_[piece.tensor].is_matrix;
  });
  return used;
}

void StoredState::read(const std::vector<Piece>& pieces, RuleState& state) const {
  for (const auto& [slot, buffer] : buffers_) buffer.read(in_use(slot, pieces), state.at(slot));
}

void StoredState::store(const std::vector<Piece>& pieces, RuleState& state,
                        const std::function<void(BlockAmax&)>& join) {
  for (const auto& entry : buffers_)
    store_one(entry.first, in_use(entry.first, pieces), state.at(entry.first), join);
}

void StoredState::store_one(StateSlot slot, const std::vector<Piece>& pieces,
                            std::vector<float>& values,
                            const std::function<void(BlockAmax&)>& join) {
  StoredBuffer& buffer = buffers_.at(slot);
  BlockAmax amax;
  buffer.collect(pieces, values, amax);
  if (buffer.has_scales()) join(amax);
  buffer.store(pieces, values, amax);
  // Reads of values that were not stored become visible as NaN.
  std::ranges::fill(values, std::numeric_limits<float>::quiet_NaN());
}

void StoredState::load(const FullState& loaded, const std::vector<Piece>& pieces, RuleState& state,
                       const std::function<void(BlockAmax&)>& join) {
  for (auto& [slot, buffer] : buffers_) {
    std::vector<float>& values = state.at(slot);
    const Span<const float> scale_inv = loaded.slot_scales[slot];
    if (scale_inv.empty()) {
      store_one(slot, pieces, values, join);
      continue;
    }
    buffer.take(pieces, values, scale_inv);
    std::ranges::fill(values, std::numeric_limits<float>::quiet_NaN());
  }
}

}  // namespace zeroproof::reference
