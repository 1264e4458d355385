#pragma once
// What is kept from step to step where that is not fp32 (R25): the state of a rule in fewer bits, and a bf16 master.

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

/// One buffer of state as it is kept. Pieces are those of the undistributed numbering.
class StoredBuffer {
 public:
  /// numel: of the rank's buffer, whose padding is NaN. blocks: in increasing order, which it has scales of.
  StoredBuffer(StateFormat format, std::int64_t numel, const std::vector<FlatRange>& blocks);

  /// x of R25, by local index.
  void read(const std::vector<Piece>& pieces, std::vector<float>& values) const;

  /// Raises amax to the values of the pieces, if the format has scales.
  void collect(const std::vector<Piece>& pieces, Span<const float> values, BlockAmax& amax) const;

  /// Makes the scales of the blocks of the pieces, of an amax that all ranks have joined, and stores the values.
  void store(const std::vector<Piece>& pieces, Span<const float> values, const BlockAmax& amax);

  /// Takes the stored form: codes, widened, by local index, and the scale_inv of every block.
  void take(const std::vector<Piece>& pieces, Span<const float> codes, Span<const float> scale_inv);

  TensorView codes() const;
  ExposedBuffer scales(BufferId id) const;

 private:
  /// Calls body(block, piece) for the part of each piece that lies in a block; block: where its scale is.
  template <class Body>
  static void for_blocks(const std::vector<Piece>& pieces, const Body& body);
  std::size_t place_of(std::int64_t block) const;
  void encode(const Piece& part, float scale, Span<const float> values);

  StateFormat format_;
  std::variant<std::vector<bf16>, std::vector<fp16>, std::vector<e4m3>> codes_;  // of the format
  std::vector<FlatRange> blocks_;  // in increasing order
  std::vector<float> scale_inv_;
};

/// All buffers of a rule that are not kept in fp32.
class StoredState {
 public:
  StoredState() = default;
  StoredState(const StateFormats& formats, const OptimizerHyper& hyper, std::int64_t numel,
              const std::vector<FlatRange>& blocks);

  bool has(BufferId id) const { return buffers_.contains(id); }
  bool has_scales(BufferId scale_id) const { return buffer_of_.contains(scale_id); }
  const StoredBuffer& operator[](BufferId id) const { return buffers_.at(id); }
  ExposedBuffer scales(BufferId scale_id) const {
    return buffers_.at(buffer_of_.at(scale_id)).scales(scale_id);
  }

  /// A step begins: the stored values take the place of what is in `state`.
  void read(const std::vector<Piece>& pieces, RuleState& state) const;

  /// A step ends: stores what is in `state`, which is NaN from then on. join: takes the amax of a buffer's blocks over
  /// all ranks that have elements of them.
  void store(const std::vector<Piece>& pieces, RuleState& state,
             const std::function<void(BlockAmax&)>& join);

  /// A loaded state: `state` has its values by local index. Those that came in the stored form are taken as they are.
  void load(const FullState& loaded, const std::vector<Piece>& pieces, RuleState& state,
            const std::function<void(BlockAmax&)>& join);

 private:
  void store_one(BufferId id, const std::vector<Piece>& pieces, std::vector<float>& values,
                 const std::function<void(BlockAmax&)>& join);

  std::map<BufferId, StoredBuffer> buffers_;
  std::map<BufferId, BufferId> buffer_of_;  // by the id of its scales
};

/// The scales of a buffer that a loaded state has, empty if it has values.
Span<const float> loaded_scales(const FullState& state, BufferId id);

}  // namespace zeroproof::reference
