#include <memory>
#include <vector>

#include "common/contracts/grad_norm.hpp"
#include "cuda/comm/memory/memory_space.hpp"
#include "cuda/comm/memory/move_tables.hpp"
#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "cuda/device/step/fold_nodes.hpp"

namespace zeroproof::cuda {

using device::DevicePieces;
using device::PlacedValues;

/// The pieces of a loop in device memory.
class DevicePieceTable {
 public:
  explicit DevicePieceTable(Span<const Piece> pieces) : pieces_(numel(pieces)) {
    for (const Piece& piece : pieces) {
      elements_ += piece.numel;
      if (piece.tensor_begin % norm_chunk_numel != 0) at_chunks_ = false;
    }
    device::stage_to_device(pieces_.data(), pieces.data(), pieces_.num_bytes());
    device::wait_for_stream();  // the loop may be used on any stream
  }

  DevicePieces pieces() const { return {pieces_.data(), pieces_.count()}; }
  std::int64_t elements() const { return elements_; }
  bool at_chunks() const { return at_chunks_; }  ///< all start at chunk boundaries of their tensors

 private:
  DeviceArray<Piece> pieces_;
  std::int64_t elements_ = 0;
  bool at_chunks_ = true;
};

namespace {

const DevicePieceTable& table_of(const host::PieceLoop& loop) {
  std::shared_ptr<const DevicePieceTable>& table = loop.device_table();
  if (!table) table = std::make_shared<const DevicePieceTable>(loop.blocks());
  return *table;
}

DevicePieces pieces_of(const host::PieceLoop& loop) {
  if (loop.blocks().empty()) return {};
  return table_of(loop).pieces();
}

PlacedValues placed(const NodeValues& values) {
  const TensorView& view = values.view();
  return {view.data, view.dtype, values.base(), values.is_packed()};
}

device::PlacedBins placed(const PlacedBins& bins) {
  return {placed(bins.hi), placed(bins.lo), placed(bins.top)};
}

std::byte* allocate(std::int64_t num_bytes) {
  return static_cast<std::byte*>(device::device_allocate(num_bytes));
}
void release(std::byte* memory) noexcept { device::device_release(memory); }
void fill(void* data, unsigned char byte, std::int64_t num_bytes) {
  if (num_bytes > 0) device::enqueue_fill(data, byte, num_bytes);
}
void read(void* host, const void* memory, std::int64_t num_bytes) {
  device::stage_to_host(host, memory, num_bytes);
  device::wait_for_stream();
}
void copy(void* to, const void* from, std::int64_t num_bytes) {
  if (num_bytes > 0) device::enqueue_on_device(to, from, num_bytes);
}

std::vector<PlacedValues> placed(Span<const NodeValues> values) {
  std::vector<PlacedValues> all;
  for (const NodeValues& one : values) all.push_back(placed(one));
  return all;
}

void fold(const host::PieceLoop& loop, const host::FoldPlan& plan, Span<const NodeValues> operands,
          const NodeValues& sum) {
  device::enqueue_fold(pieces_of(loop), plan, placed(operands), placed(sum));
}

std::int64_t measured_fold(const host::PieceLoop& loop, const host::FoldPlan& plan,
                           Span<const NodeValues> operands, const NodeValues& sum,
                           const device::GradMeasurement& measurement) {
  if (loop.blocks().empty()) return 0;
  const DevicePieceTable& table = table_of(loop);
  // The buckets of a single rank may end inside a chunk, because it owns both parts.
  if (measurement.form == NormForm::chunk1024 && !table.at_chunks()) {
    fold(loop, plan, operands, sum);
    return 0;
  }
  device::enqueue_measured_fold(table.pieces(), plan, placed(operands), placed(sum), measurement);
  return table.elements();
}

constexpr ForeignMemory device_memory = {allocate, release, fill, read};

}  // namespace

const MemorySpace& device_space() {
  static constexpr MemorySpace space = [] {
    MemorySpace device;
    device.kind = Space::device;
    device.memory = &device_memory;
    device.fill = fill;
    device.copy = copy;
    device.copy_many = [](Span<const Move> moves) {
      device::current_stream().kept<MoveTables>().enqueue(moves);
    };
    device.from_host = device::stage_to_device;
    device.to_host = device::stage_to_host;
    device.wait = device::wait_for_stream;
    device.is_in_space = device::is_on_device;
    device.is_on_host = device::is_on_host;
    device.fold = fold;
    device.measured_fold = measured_fold;
    device.deposit = [](const host::PieceLoop& loop, const NodeValues& leaf,
                        const PlacedBins& bins) {
      device::enqueue_binned_deposit(pieces_of(loop), placed(leaf), placed(bins));
    };
    device.merge = [](const host::PieceLoop& loop, const PlacedBins& from, const PlacedBins& into) {
      device::enqueue_binned_merge(pieces_of(loop), placed(from), placed(into));
    };
    device.finish = [](const host::PieceLoop& loop, const PlacedBins& bins,
                       const NodeValues& result) {
      device::enqueue_binned_finish(pieces_of(loop), placed(bins), placed(result));
    };
    return device;
  }();
  return space;
}

}  // namespace zeroproof::cuda
