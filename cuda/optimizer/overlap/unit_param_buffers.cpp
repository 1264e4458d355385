#include "cuda/optimizer/overlap/unit_param_buffers.hpp"

#include <string>

#include "common/base/error.hpp"

namespace zeroproof::cuda {

UnitParamBuffers::UnitParamBuffers(std::vector<FlatRange> units, std::vector<bool> persistent,
                                   DType dtype, UnitGatherer& gatherer, MemoryLedger& ledger,
                                   BufferFill fill)
    : dtype_(dtype), gatherer_(gatherer), ledger_(ledger), fill_(fill), entries_(units.size()) {
  ZP_CHECK(persistent.empty() || persistent.size() == units.size(), ErrorCode::invalid_argument,
           std::to_string(persistent.size()) + " flags for persistent units of " +
               std::to_string(units.size()),
           "each unit needs one", "pass one flag per unit, or none at all");
  for (std::size_t u = 0; u < units.size(); ++u) {
    entries_[u].range = units[u];
    entries_[u].is_persistent = !persistent.empty() && persistent[u];
  }
}

std::size_t UnitParamBuffers::validate(int unit) const {
  ZP_CHECK(unit >= 0 && static_cast<std::size_t>(unit) < entries_.size(), ErrorCode::internal,
           "parameters of unit " + std::to_string(unit) + " are out of range",
           "the number of units is " + std::to_string(entries_.size()), "count units from 0");
  return static_cast<std::size_t>(unit);
}

bool UnitParamBuffers::is_persistent(int unit) const {
  return entries_[validate(unit)].is_persistent;
}

void UnitParamBuffers::allocate(int unit) {
  Entry& mine = entries_[validate(unit)];
  ZP_CHECK(!mine.is_alive, ErrorCode::internal,
           "the parameters of unit " + std::to_string(unit) + " are allocated twice",
           "the first buffer may be in use", "release the unit before it is gathered again");
  mine.buffer = CountedBuffer(ledger_, MemoryClass::param_full, mine.range.numel(), dtype_, fill_);
  mine.is_alive = true;
}

void UnitParamBuffers::gather(int unit) {
  Entry& mine = entries_[validate(unit)];
  ZP_CHECK(mine.is_alive, ErrorCode::internal,
           "unit " + std::to_string(unit) + " is gathered without a buffer",
           "it was not allocated yet, or was released", "allocate it first");
  const std::int64_t version = gatherer_.version();
  gatherer_.gather(mine.range, mine.buffer->view());
  mine.version = version;
}

void UnitParamBuffers::gather_persistent() {
  for (std::size_t u = 0; u < entries_.size(); ++u) {
    if (!entries_[u].is_persistent || entries_[u].version == gatherer_.version()) continue;
    if (!entries_[u].is_alive) allocate(static_cast<int>(u));
    gather(static_cast<int>(u));
  }
}

TensorView UnitParamBuffers::get(int unit) const {
  const Entry& mine = entries_[validate(unit)];
  const std::int64_t latest = gatherer_.version();
  ZP_CHECK(mine.is_alive && mine.version == latest, ErrorCode::internal,
           "unit " + std::to_string(unit) + " is used " +
               (mine.version == not_gathered
                    ? "without having been gathered"
                    : "with parameters of version " + std::to_string(mine.version)) +
               " and the latest version is " + std::to_string(latest),
           "a layer would compute with missing or outdated parameters",
           "gather it after the cast and wait for the gather");
  return mine.buffer->view();
}

void UnitParamBuffers::release(int unit) {
  Entry& mine = entries_[validate(unit)];
  ZP_CHECK(mine.is_alive, ErrorCode::internal,
           "the parameters of unit " + std::to_string(unit) +
               " are released without having been allocated",
           "another buffer may use that memory", "release every unit once");
  if (mine.is_persistent) return;
  const bool is_intact = mine.buffer.intact();
  give_back(mine);
  ZP_CHECK(is_intact, ErrorCode::internal,
           "the red zone of the parameters of unit " + std::to_string(unit) + " was overwritten",
           "the model or the gather wrote outside its range", "report this with the command line");
}

void UnitParamBuffers::release_all() {
  for (Entry& entry : entries_) {
    if (!entry.is_persistent) give_back(entry);
  }
}

void UnitParamBuffers::give_back(Entry& entry) {
  entry.buffer = CountedBuffer();
  entry.is_alive = false;
  entry.version = not_gathered;
}

}  // namespace zeroproof::cuda
