#pragma once
// The scales of 8-bit parameters from step to step, and the cast with them (R24). With several
// ranks the caller joins `amax` between collect() and make().

#include <functional>
#include <vector>

#include "common/layout/tensor_blocks.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::reference {

/// The tensors that take part in a step.
using TakesPart = std::function<bool(std::int64_t tensor)>;

/// Arrays over the blocks of all tensors, and the five steps of R24. Without scales there are no
/// blocks, and only exist() may be called.
class ParamScales {
 public:
  ParamScales() = default;

  /// Initial values: scales are 1, histories and amax 0.
  ParamScales(const StepSettings& settings, TensorBlocks blocks);

  bool exist() const { return exist_; }
  const TensorBlocks& blocks() const { return blocks_; }

  /// Loads a state that has scales. In place, because observers may hold views.
  void load(const FullState& state);
  /// Resets to the state after construction, in place.
  void begin();

  /// Step 1: under delayed, shifts the histories of tensors that take part and computes their
  /// scales.
  void move_histories(const TakesPart& takes_part);

  /// Step 2: amax of the blocks of this rank's elements, of tensors that take part; 0 for all
  /// others. pieces: their places in master, by local index.
  void collect(Span<const float> master, const std::vector<Piece>& pieces,
               const TakesPart& takes_part);

  /// Steps 3 and 4: scales, or the inputs of the next ones, from the joined amax.
  void make(const TakesPart& takes_part);

  /// Step 5: codes of the pieces' elements, at the same local index as in master; other tensors
  /// keep their codes.
  void cast(Span<const float> master, const std::vector<Piece>& pieces, const TakesPart& takes_part,
            const TensorView& codes) const;

  /// x of the codes [R22], at the same local index.
  void dequantize(const TensorView& codes, const std::vector<Piece>& pieces,
                  Span<float> values) const;

  // Exposed to observers, which may overwrite them. Later steps read these members.
  std::vector<std::uint32_t> amax;  ///< [num_blocks]
  std::vector<std::uint32_t>
      amax_history;                     ///< [num_blocks * history] under delayed, otherwise empty
  std::vector<float> scale, scale_inv;  ///< [num_blocks]

 private:
  void make_tensor(std::size_t first, std::size_t count);
  Span<std::uint32_t> history_of(std::size_t first, std::size_t count);

  bool exist_ = false;
  DType dtype_ = DType::e4m3;
  ParamScaling scaling_;
  TensorBlocks blocks_;
};

/// Transposes the tensors that `codes` has whole: row r, column c of R by C goes to c * R + r of
/// the same range. The rest of `target` keeps its bits.
///
/// Shapes   both views: 8-bit formats, by the local index of the pieces.
void transpose_codes(const FlatLayout& layout, const std::vector<Piece>& pieces,
                     const TensorView& codes, const TensorView& target);

}  // namespace zeroproof::reference
