#pragma once
// Memory shared with a plug-in's process: a ring of slots for calls, each with red zones.

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

/// Calls keep their slots for a while, so that late writes are found: the last `kept` of them.
class PluginArena {
 public:
  static constexpr int kept = 4;

  /// Errors (ErrorCode::io): no shared memory.
  PluginArena();
  ~PluginArena();
  PluginArena(const PluginArena&) = delete;
  PluginArena& operator=(const PluginArena&) = delete;

  int descriptor() const { return file_; }
  std::uint64_t num_bytes() const { return static_cast<std::uint64_t>(slot_bytes_) * kept; }

  /// Throws CandidateFailure if the process made the memory larger, and takes new memory for the
  /// next process: it can never be made smaller again.
  void expect_own_size();

  /// Copies the operands into the oldest slot: inputs unchanged, outputs as NaN, every one with its
  /// offset from a multiple of 64 bytes preserved. Returns their offsets. Errors
  /// (ErrorCode::io): there is no more memory; what there was stays. Throws as expect_own_size().
  std::vector<std::uint64_t> put(const std::vector<PluginOperand>& operands);

  /// Slot of the current call: offset (a multiple of 4096) and size.
  std::uint64_t place_begin() const {
    return static_cast<std::uint64_t>(memory_of(current_) - memory_);
  }
  std::uint64_t place_bytes() const { return before_.size(); }

  /// A forbidden write; `what` is "" if there is none.
  struct Damage {
    std::string what;
    bool of_inputs = false;  ///< an input has changed; otherwise memory around the operands has
  };

  /// After the call: copies the outputs into the operands if no forbidden write is found.
  Damage take(const std::vector<PluginOperand>& operands);

  /// The name of an operand that changed after its call ended, "" if there is none; `whose`: only
  /// the last call, or all kept calls.
  enum class Whose { last, all };
  std::string changed_since(Whose whose) const;

  /// Forgets the memory of an ended process: later changes of it are not reported.
  void forget();

 private:
  struct Piece {
    std::string name;
    std::size_t offset = 0, bytes = 0;  // of the contents
    bool written = false;
  };
  struct Slot {
    std::vector<Piece> pieces;
    std::vector<std::byte> after;  // the whole slot at the end of its call; empty: not compared
  };

  void open();
  void close();
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
  std::vector<std::byte> before_;  // the current slot at the start of its call
};

}  // namespace zeroproof::verification
