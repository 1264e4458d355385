#include "cuda/optimizer/overlap/unit_grads.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.hpp"

namespace zeroproof::cuda {
namespace {

std::string gradient(const char* what, int index) {
  return std::string("the gradient of ") + what + " " + std::to_string(index);
}

}  // namespace

TensorView stretch(const TensorView& view, std::int64_t begin, FlatRange range) {
  const std::int64_t offset = (range.begin - begin) * num_bytes(view.dtype);
  return {static_cast<std::byte*>(view.data) + offset, view.dtype, range.numel()};
}

UnitGrads::UnitGrads(std::vector<FlatRange> units, std::vector<FlatRange> buckets, DType dtype,
                     MemoryLedger& ledger, BufferFill fill)
    : units_(std::move(units)),
      buckets_(std::move(buckets)),
      parts_(bucket_parts(units_, buckets_)),
      unit_buckets_(buckets_of_units(parts_, units_.size())),
      dtype_(dtype),
      fill_(fill),
      ledger_(ledger),
      unit_buffers_(units_.size()),
      bucket_buffers_(buckets_.size()) {}

std::size_t UnitGrads::validate(int index, const std::vector<FlatRange>& ranges) {
  ZP_CHECK(index >= 0 && static_cast<std::size_t>(index) < ranges.size(), ErrorCode::internal,
           "gradient " + std::to_string(index) + " is out of range",
           "the number of gradients is " + std::to_string(ranges.size()),
           "report this with the command line");
  return static_cast<std::size_t>(index);
}

void UnitGrads::allocate(Buffer& buffer, FlatRange range, const char* what, int index) {
  ZP_CHECK(!buffer.is_alive, ErrorCode::internal, gradient(what, index) + " is allocated twice",
           "the values in it would be lost", "free it first");
  buffer.memory = CountedBuffer(ledger_, MemoryClass::grad, range.numel(), dtype_, fill_);
  buffer.is_alive = true;
  buffer.is_sealed = false;
}

void UnitGrads::allocate_unit(int unit) {
  const std::size_t u = validate(unit, units_);
  allocate(unit_buffers_[u], units_[u], "unit", unit);
}

void UnitGrads::allocate_bucket(int bucket) {
  const std::size_t b = validate(bucket, buckets_);
  ZP_CHECK(parts_[b].size() > 1, ErrorCode::internal, gradient("bucket", bucket) + " is allocated",
           "the bucket is inside one unit and a view of its gradient", "allocate the unit's");
  allocate(bucket_buffers_[b], buckets_[b], "bucket", bucket);
}

TensorView UnitGrads::view(const Buffer& buffer, const char* what, int index) {
  ZP_CHECK(buffer.is_alive, ErrorCode::internal,
           gradient(what, index) + " is used but not allocated",
           "it was not allocated yet, or was freed",
           "wait for its allocation, and free it after its last reader");
  return buffer.memory->view();
}

TensorView UnitGrads::unit(int unit) const {
  const Buffer& buffer = unit_buffers_[validate(unit, units_)];
  ZP_CHECK(!buffer.is_sealed, ErrorCode::internal,
           gradient("unit", unit) + " is written after its completion",
           "its buckets may have been reduced already",
           "declare it complete after its last backward visit");
  return view(buffer, "unit", unit);
}

TensorView UnitGrads::bucket(int bucket) const {
  const std::size_t b = validate(bucket, buckets_);
  if (parts_[b].size() > 1) return view(bucket_buffers_[b], "bucket", bucket);
  const int holder = parts_[b].front().unit;
  const auto u = static_cast<std::size_t>(holder);
  const TensorView whole = view(unit_buffers_[u], "unit", holder);
  ZP_CHECK(unit_buffers_[u].is_sealed, ErrorCode::internal,
           gradient("unit", holder) + " is not complete yet",
           "bucket " + std::to_string(bucket) + " would be reduced before it is complete",
           "wait until the unit is declared complete");
  return stretch(whole, units_[u].begin, buckets_[b]);
}

void UnitGrads::seal(int unit) {
  const TensorView grad = this->unit(unit);
  std::vector<Move> moves;
  for (const int bucket : unit_buckets_[unit]) {
    const auto b = static_cast<std::size_t>(bucket);
    if (parts_[b].size() < 2) continue;
    const auto part = std::ranges::lower_bound(parts_[b], unit, {}, &BucketPart::unit);
    const TensorView from = stretch(grad, units_[unit].begin, part->range);
    const TensorView to = stretch(this->bucket(bucket), buckets_[b].begin, part->range);
    moves.push_back({to.data, from.data, from.num_bytes()});
  }
  ledger_.space().copy_many(moves);
  unit_buffers_[unit].is_sealed = true;
}

void UnitGrads::free(Buffer& buffer, const char* what, int index) {
  ZP_CHECK(buffer.is_alive, ErrorCode::internal,
           gradient(what, index) + " is freed but not allocated",
           "another buffer may use that memory", "free every gradient once");
  const bool is_intact = buffer.memory.intact();
  buffer = {};
  ZP_CHECK(is_intact, ErrorCode::internal,
           "the red zone of " + gradient(what, index) + " was overwritten",
           "the model wrote outside its range", "check the model's backward pass");
}

void UnitGrads::free_all() {
  for (Buffer& buffer : unit_buffers_) buffer = {};
  for (Buffer& buffer : bucket_buffers_) buffer = {};
}

}  // namespace zeroproof::cuda
