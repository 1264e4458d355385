#include "verification/interfaces/plugin/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "common/base/error.hpp"
#include "verification/ops/op_candidate.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t red_zone = 256;
constexpr unsigned char red = 0xA5;
constexpr unsigned char poison = 0xFF;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Offset of an address from a multiple of `alignment`.
std::size_t shift_of(const PluginOperand& operand) {
  return reinterpret_cast<std::uintptr_t>(operand.view.data) % alignment;
}

std::size_t bytes_of(const PluginOperand& operand) {
  return static_cast<std::size_t>(operand.view.num_bytes());
}

[[noreturn]] void refuse() {
  fail(ErrorCode::io, "no shared memory could be allocated for a plug-in's process",
       "it holds the operands of calls", "free some memory, and run again");
}

}  // namespace

PluginArena::PluginArena() { open(); }

PluginArena::~PluginArena() { close(); }

/// Sealed: a page that the process takes away would end this program when it reads it (SIGBUS).
void PluginArena::open() {
  file_ = ::memfd_create("zeroproof-plugin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file_ < 0 || ::fcntl(file_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) refuse();
}

void PluginArena::close() {
  forget();
  if (memory_ != nullptr) ::munmap(memory_, num_bytes());
  ::close(file_);
  memory_ = nullptr;
  slot_bytes_ = 0;
}

void PluginArena::expect_own_size() {
  struct stat info {};
  if (::fstat(file_, &info) != 0) refuse();
  if (static_cast<std::uint64_t>(info.st_size) == num_bytes()) return;
  close();
  open();
  throw CandidateFailure(Status::tampered, "the plug-in made the shared memory larger");
}

void PluginArena::forget() {
  for (Slot& slot : slots_) slot = {};
}

void PluginArena::grow(std::size_t slot_bytes) {
  if (slot_bytes <= slot_bytes_) return;
  const std::size_t larger = rounded_up(std::max(slot_bytes, 2 * slot_bytes_), 4096);
  void* memory = ::mmap(nullptr, larger * kept, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) refuse();
  // Last: the file cannot be made smaller again.
  if (::ftruncate(file_, static_cast<off_t>(larger * kept)) != 0) {
    ::munmap(memory, larger * kept);
    refuse();
  }
  forget();
  if (memory_ != nullptr) ::munmap(memory_, num_bytes());
  memory_ = static_cast<std::byte*>(memory);
  slot_bytes_ = larger;
}

std::vector<std::uint64_t> PluginArena::put(const std::vector<PluginOperand>& operands) {
  Slot place;
  std::size_t end = red_zone;
  for (const PluginOperand& operand : operands) {
    const std::size_t begin = rounded_up(end, alignment) + shift_of(operand);
    place.pieces.push_back({operand.name, begin, bytes_of(operand), operand.written});
    end = begin + bytes_of(operand) + red_zone;
  }
  expect_own_size();
  grow(end);
  current_ = (current_ + 1) % kept;
  std::byte* memory = memory_of(current_);
  std::memset(memory, red, end);
  std::vector<std::uint64_t> offsets;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Piece& piece = place.pieces[k];
    offsets.push_back(static_cast<std::uint64_t>(memory - memory_) + piece.offset);
    if (piece.bytes == 0) continue;
    if (operands[k].read) {
      std::memcpy(memory + piece.offset, operands[k].view.data, piece.bytes);
    } else {
      std::memset(memory + piece.offset, poison, piece.bytes);
    }
  }
  before_.assign(memory, memory + end);
  slots_[current_] = std::move(place);
  return offsets;
}

PluginArena::Damage PluginArena::take(const std::vector<PluginOperand>& operands) {
  Slot& slot = slots_[current_];
  const std::byte* memory = memory_of(current_);
  slot.after.assign(memory,
                    memory + before_.size());  // copied at once: a late write may still change it
  const auto same = [&](std::size_t from, std::size_t to) {
    return std::equal(slot.after.begin() + static_cast<std::ptrdiff_t>(from),
                      slot.after.begin() + static_cast<std::ptrdiff_t>(to),
                      before_.begin() + static_cast<std::ptrdiff_t>(from));
  };
  std::size_t end = 0;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Piece& piece = slot.pieces[k];
    const std::size_t behind = piece.offset + piece.bytes;
    const std::size_t next = k + 1 < operands.size() ? slot.pieces[k + 1].offset : before_.size();
    if (!same(end, piece.offset) || !same(behind, next))
      return {piece.name + " was written outside its bounds", false};
    end = behind;
  }
  for (const Piece& piece :
       slot.pieces) {  // afterwards: a stray write may have continued into an input
    const std::size_t behind = piece.offset + piece.bytes;
    if (!piece.written && !same(piece.offset, behind))
      return {"the input " + piece.name + " was edited", true};
  }
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Piece& piece = slot.pieces[k];
    if (piece.written && piece.bytes > 0) {
      std::memcpy(operands[k].view.data, slot.after.data() + piece.offset, piece.bytes);
    }
  }
  return {};
}

std::string PluginArena::changed_in(const Slot& slot, const std::byte* memory) const {
  if (slot.after.empty() || std::memcmp(memory, slot.after.data(), slot.after.size()) == 0)
    return {};
  for (const Piece& piece : slot.pieces) {
    if (std::memcmp(memory + piece.offset, slot.after.data() + piece.offset, piece.bytes) != 0)
      return piece.name;
  }
  return slot.pieces.front().name;
}

std::string PluginArena::changed_since(Whose whose) const {
  for (int i = 0; i < kept; ++i) {
    if (whose == Whose::last && i != current_) continue;
    const std::string name = changed_in(slots_[i], memory_of(i));
    if (!name.empty()) return name;
  }
  return {};
}

}  // namespace zeroproof::verification
