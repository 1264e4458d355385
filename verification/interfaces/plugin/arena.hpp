#pragma once
// Memory that this program shares with a plug-in's process: a ring of places for calls, each with red zones.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/span.hpp"

namespace zeroproof::verification {

/// A buffer of a call, in memory of this program.
struct PluginOperand {
  std::string name;
  TensorView view;
  bool read = true, written = false;
  std::int64_t per_element =
      1;  ///< values of one element: above 1 the shape is [numel / per_element, per_element]
};

/// Calls keep their places for a while, so that a write that comes late is seen: the last `kept` of them.
class PluginArena {
 public:
  static constexpr int kept = 4;

  /// Errors (ErrorCode::io): no memory to share.
  PluginArena();
  ~PluginArena();
  PluginArena(const PluginArena&) = delete;
  PluginArena& operator=(const PluginArena&) = delete;

  int descriptor() const { return file_; }
  std::uint64_t num_bytes() const { return static_cast<std::uint64_t>(slot_bytes_) * kept; }

  /// Puts the operands into the oldest place: inputs as they are, outputs as NaN, every one as far from a multiple of
  /// 64 bytes as in this program. Returns their offsets.
  std::vector<std::uint64_t> put(const std::vector<PluginOperand>& operands);

  /// Where put() has put a call: offset (a multiple of 4096) and size of the whole place.
  std::uint64_t place_begin() const {
    return static_cast<std::uint64_t>(memory_of(current_) - memory_);
  }
  std::uint64_t place_bytes() const { return before_.size(); }

  /// What is written where nobody may; `what` is "" if nothing is.
  struct Damage {
    std::string what;
    bool of_inputs =
        false;  ///< an input has other numbers now; otherwise something around the operands has
  };

  /// After the call: if nothing is damaged, its outputs are in the operands then.
  Damage take(const std::vector<PluginOperand>& operands);

  /// The name of an operand that changed since its call was over, "" if there is none; `whose`: of the last call alone,
  /// or of all that are kept.
  enum class Whose { last, all };
  std::string changed_since(Whose whose) const;

  /// The memory of a process that is gone: nothing in it is expected to stay as it was.
  void forget();

 private:
  struct Piece {
    std::string name;
    std::size_t offset = 0, bytes = 0;  // of the contents
    bool written = false;
  };
  struct Slot {
    std::vector<Piece> pieces;
    std::vector<std::byte>
        after;  // the whole place as it was when its call was over; empty: nothing to look at
  };

  void grow(std::size_t slot_bytes);
  std::byte* memory_of(int slot) const {
    return memory_ + static_cast<std::size_t>(slot) * slot_bytes_;
  }
  std::string changed_in(const Slot& slot, const std::byte* memory) const;

  int file_ = -1;
  std::byte* memory_ = nullptr;
  std::size_t slot_bytes_ = 0;
  int current_ = 0;
  Slot slots_[kept];
  std::vector<std::byte> before_;  // the current place as it was when its call began
};

}  // namespace zeroproof::verification
