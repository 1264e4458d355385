#pragma once
// State between steps that is not stored in fp32 (R25): the buffers of a rule in fewer bits, and a
// bf16 master.

#include <functional>
#include <map>
#include <variant>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "reference/rule.hpp"

namespace zeroproof::reference {

/// The largest magnitudes of blocks, by the number of the block in the undistributed model.
using BlockAmax = std::map<std::int64_t, std::uint32_t>;

/// The blocks in which pieces of the undistributed numbering have elements.
std::vector<FlatRange> blocks_with_elements(const std::vector<Piece>& pieces);

/// One stored buffer of state. Pieces are those of the undistributed numbering.
class StoredBuffer {
 public:
  /// numel: of the rank's buffer, whose padding is NaN. blocks: those with scales, in increasing
  /// order.
  StoredBuffer(StateFormat format, std::int64_t numel, const std::vector<FlatRange>& blocks);

  /// x of R25, by local index.
  void read(const std::vector<Piece>& pieces, std::vector<float>& values) const;

  /// Raises amax to the magnitudes in the pieces, if the format has scales.
  void collect(const std::vector<Piece>& pieces, Span<const float> values, BlockAmax& amax) const;

  /// Computes the scales of the blocks of the pieces from an amax joined over all ranks, and stores
  /// the values.
  void store(const std::vector<Piece>& pieces, Span<const float> values, const BlockAmax& amax);

  /// Loads the stored form: codes, widened, by local index, and the scale_inv of every block.
  void take(const std::vector<Piece>& pieces, Span<const float> codes, Span<const float> scale_inv);

  TensorView codes() const;
  bool has_scales() const { return zeroproof::has_scales(format_); }
  ExposedBuffer scales(StateSlot slot) const;

 private:
  /// Calls body(block, piece) for the part of each piece in a block; block: index of its scale.
  template <class Body>
  static void for_blocks(const std::vector<Piece>& pieces, const Body& body);
  std::size_t place_of(std::int64_t block) const;
  void encode(const Piece& part, float scale, Span<const float> values);

  StateFormat format_;
  std::variant<std::vector<bf16>, std::vector<fp16>, std::vector<e4m3>>
      codes_;                      // the alternative is the format's
  std::vector<FlatRange> blocks_;  // in increasing order
  std::vector<float> scale_inv_;
};

/// All buffers of a rule that are not stored in fp32.
class StoredState {
 public:
  StoredState() = default;
  StoredState(const StepSettings& settings, std::int64_t numel,
              const std::vector<FlatRange>& blocks);

  bool has(StateSlot slot) const { return buffers_.contains(slot); }
  bool has_scales(StateSlot slot) const { return has(slot) && buffers_.at(slot).has_scales(); }
  const StoredBuffer& operator[](StateSlot slot) const { return buffers_.at(slot); }
  ExposedBuffer scales(StateSlot slot) const { return buffers_.at(slot).scales(slot); }

  /// Begins a step: decodes the stored values into `state`.
  void read(const std::vector<Piece>& pieces, RuleState& state) const;

  /// Ends a step: stores the values of `state`, which is NaN from then on. join: joins the amax of
  /// a buffer's blocks over all ranks with elements of them.
  void store(const std::vector<Piece>& pieces, RuleState& state,
             const std::function<void(BlockAmax&)>& join);

  /// Loads a state: `state` has its values by local index. Buffers in the stored form are copied as
  /// they are.
  void load(const FullState& loaded, const std::vector<Piece>& pieces, RuleState& state,
            const std::function<void(BlockAmax&)>& join);

 private:
  /// The pieces whose values in a slot a step reads and stores.
  std::vector<Piece> in_use(StateSlot slot, const std::vector<Piece>& pieces) const;
  void store_one(StateSlot slot, const std::vector<Piece>& pieces, std::vector<float>& values,
                 const std::function<void(BlockAmax&)>& join);

  std::map<StateSlot, StoredBuffer> buffers_;
  std::vector<MatrixTensor> matrix_tensors_;  // with the rule muon
};

}  // namespace zeroproof::reference
