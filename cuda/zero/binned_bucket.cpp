// Binned sums (R11) over the leaves of one bucket.

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "cuda/host/binned_sum.hpp"
#include "cuda/zero/bucket_sum.hpp"
#include "cuda/zero/micro_batches.hpp"

namespace zeroproof::cuda {
namespace {

/// Bytes of the fields of `numel` sums: hi, lo, then top, padded so that several of them can follow each other.
std::int64_t bins_bytes(std::int64_t numel) { return 8 * numel + (numel + 3) / 4 * 4; }

/// The fields of `numel` sums in one stretch of memory, addressed like NodeValues.
class Bins {
 public:
  Bins(void* data, std::int64_t numel, std::int64_t base) {
    auto* bytes = static_cast<std::byte*>(data);
    const auto values = [&](std::byte* at, DType dtype) {
      const TensorView view{at, dtype, numel};
      return base < 0 ? NodeValues::packed(view) : NodeValues::flat(view, base);
    };
    hi_ = values(bytes, DType::u32);
    lo_ = values(bytes + 4 * numel, DType::u32);
    top_ = values(bytes + 8 * numel, DType::e4m3);
  }

  BinnedSum part(const Piece& piece) const {
    return {hi_.part<std::int32_t>(piece), lo_.part<std::int32_t>(piece), top_.part<std::uint8_t>(piece)};
  }

  /// Packs a rank's part of the fields, as bins of part.numel sums. Not for packed bins.
  void pack_part(const RankPart& part, std::byte* packed) const {
    pack(part, hi_.view().data, hi_.base(), 4, packed);
    pack(part, lo_.view().data, lo_.base(), 4, packed + 4 * part.numel);
    pack(part, top_.view().data, top_.base(), 1, packed + 8 * part.numel);
  }

 private:
  NodeValues hi_, lo_, top_;
};

class BinnedBucket final : public BucketSum {
 public:
  BinnedBucket(ReduceTools& tools, const LeafNumbers& numbers, const BucketPlan& plan, bool keeps)
      : tools_(tools),
        numbers_(numbers),
        plan_(plan),
        keeps_(keeps),
        buffer_(zeros(tools, keeps ? plan.range.numel() : plan.own.numel)),
        bins_(buffer_->data(), keeps ? plan.range.numel() : plan.own.numel, keeps ? plan.range.begin : -1) {}

  void keep(std::int64_t, NodeValues leaf) override { deposit(plan_.all, leaf); }

  /// Parts of one leaf come one after another, from neighbouring ranks.
  void receive(int, std::int64_t, NodeValues part) override {
    if (tools_.setup.cp == 1) return deposit(plan_.mine, part);
    parts_.push_back(std::move(part));
    if (static_cast<int>(parts_.size()) < tools_.setup.cp) return;
    plan_.mine.run(tools_.setup.exec, [&](const Exec& exec, const Piece& piece) {
      std::array<float, host::block_numel> leaf;
      const Span<float> values(leaf.data(), static_cast<std::size_t>(piece.numel));
      tools_.fold(exec, parts_, piece, values);
      host::binned_deposit(exec, values, bins_.part(piece));
    });
    parts_.clear();
  }

  void finish(Span<float> grad_sum) override {
    if (keeps_) exchange();
    if (plan_.own.numel == 0) return;
    if (instances(tools_.setup) > 1) exchange_instances();
    plan_.mine.run(tools_.setup.exec, [&](const Exec& exec, const Piece& piece) {
      const auto at = static_cast<std::size_t>(plan_.grad_index(piece));
      host::binned_finish(exec, bins_.part(piece),
                          grad_sum.subspan(at, static_cast<std::size_t>(piece.numel)));
    });
  }

 private:
  static CountedBuffer zeros(ReduceTools& tools, std::int64_t numel) {
    CountedBuffer buffer(tools.ledger, MemoryClass::grad_nodes, bins_bytes(numel), DType::e4m3);
    std::memset(buffer->data(), 0, static_cast<std::size_t>(bins_bytes(numel)));
    return buffer;
  }

  void deposit(const host::PieceLoop& loop, const NodeValues& leaf) const {
    loop.run(tools_.setup.exec, [&](const Exec& exec, const Piece& piece) {
      if (leaf.view().dtype == DType::fp32) {
        return host::binned_deposit(exec, leaf.part<const float>(piece), bins_.part(piece));
      }
      std::array<float, host::block_numel> wide;
      const Span<float> values(wide.data(), static_cast<std::size_t>(piece.numel));
      tools_.widen(exec, leaf, piece, values);
      host::binned_deposit(exec, values, bins_.part(piece));
    });
  }

  void merge(std::byte* arrived) const {
    const Bins theirs(arrived, plan_.own.numel, -1);
    plan_.mine.run(tools_.setup.exec, [&](const Exec& exec, const Piece& piece) {
      host::binned_merge(exec, theirs.part(piece), bins_.part(piece));
    });
  }

  void exchange() const;
  void exchange_instances() const;

  ReduceTools& tools_;
  const LeafNumbers& numbers_;
  const BucketPlan& plan_;
  const bool keeps_;
  const CountedBuffer buffer_;
  const Bins bins_;
  std::vector<NodeValues> parts_;  ///< of the leaf that is arriving
};

/// Bins of this rank's part from every rank that has leaves. A rank without one sends nothing.
void BinnedBucket::exchange() const {
  Communicator& comm = *tools_.setup.comm;
  const int world = comm.world_size();
  const bool sends = !numbers_.nodes(comm.rank()).empty();
  const auto arrives = [&](int r) { return r != comm.rank() && !numbers_.nodes(r).empty(); };
  std::int64_t leaving = 0;
  std::int64_t arriving = 0;
  for (int r = 0; r < world; ++r) {
    if (sends && r != comm.rank()) leaving += bins_bytes(plan_.part(r).numel);
    if (arrives(r)) arriving += bins_bytes(plan_.own.numel);
  }
  std::byte* out = tools_.out.take(leaving);
  std::byte* in = tools_.in.take(arriving);
  std::vector<Span<const std::byte>> send(static_cast<std::size_t>(world));
  std::vector<Span<std::byte>> receive(send.size());
  for (int r = 0; r < world; ++r) {
    const auto at = static_cast<std::size_t>(r);
    if (sends && r != comm.rank()) {
      bins_.pack_part(plan_.part(static_cast<int>(at)), out);
      send[at] = {out, static_cast<std::size_t>(bins_bytes(plan_.part(static_cast<int>(at)).numel))};
      out += send[at].size();
    }
    if (arrives(r)) {
      receive[at] = {in, static_cast<std::size_t>(bins_bytes(plan_.own.numel))};
      in += receive[at].size();
    }
  }
  if (world > 1) comm.all_to_all(send, receive);
  for (const Span<std::byte> bins : receive) {
    if (!bins.empty()) merge(bins.data());
  }
}

void BinnedBucket::exchange_instances() const {
  const OptimizerSetup& setup = tools_.setup;
  const std::int64_t bytes = bins_bytes(plan_.own.numel);
  std::byte* gathered = tools_.gathered.take(instances(setup) * bytes);
  std::vector<Span<std::byte>> receive;
  for (int i = 0; i < instances(setup); ++i) {
    receive.push_back({gathered + i * bytes, static_cast<std::size_t>(bytes)});
  }
  const Span<std::byte> mine = receive[static_cast<std::size_t>(instance(setup))];
  if (keeps_) {
    bins_.pack_part(plan_.own, mine.data());
  } else {
    std::memcpy(mine.data(), buffer_->data(), mine.size());
  }
  setup.replicas->all_gather(mine, receive);
  for (const Span<std::byte> bins : receive) {
    if (bins.data() != mine.data()) merge(bins.data());
  }
}

}  // namespace

std::unique_ptr<BucketSum> make_binned_sum(ReduceTools& tools, const LeafNumbers& numbers,
                                           const BucketPlan& plan, bool keeps) {
  return std::make_unique<BinnedBucket>(tools, numbers, plan, keeps);
}

}  // namespace zeroproof::cuda
