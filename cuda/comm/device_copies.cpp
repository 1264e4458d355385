#include "cuda/comm/device_copies.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "common/comm/exchange_communicator.hpp"
#include "cuda/comm/combine_words.hpp"
#include "cuda/comm/counted_communicator.hpp"
#include "cuda/comm/device_scratch.hpp"
#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::cuda {

namespace {

using device::current_stream;

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

/// Position of a rank's stream in the current call. The rank records the events, other ranks'
/// streams wait for them.
struct Marks {
  device::Event ready;  ///< its data to send is ready
  device::Event done;   ///< it has read the data of other ranks
};

/// Every rank fetches its own data. In the meeting, its stream waits for the `ready` of the ranks
/// that it reads from, it enqueues the copies and records `done`; after the meeting its stream
/// waits for the `done` of the ranks that read from it. Each mark is recorded before a stream waits
/// for it, so no stream waits for work that a host thread has yet to enqueue.
///
/// Two events are enough for all calls. `ready` is recorded before its rank enters a meeting and
/// used by other ranks in that meeting; the next call records it again, after the meeting has ended
/// and all ranks have used it. `done` is recorded in a meeting and used by other ranks after it;
/// the next meeting records it again, which begins when all ranks have arrived and therefore used
/// it. The lock of the meetings thus orders all use of a mark by different host threads. On the
/// device a wait refers to the mark at the time of the call: later marks do not affect it, in
/// whatever stream they are recorded, so a rank may use one stream now and another one next. The
/// rank orders its own streams where they share buffers; the communicator only orders scratch
/// memory.
class DeviceCopies final : public ExchangeCommunicator, public CountedCommunicator {
 public:
  /// owned: control itself, for a group.
  explicit DeviceCopies(Communicator& control, std::unique_ptr<Communicator> owned = nullptr)
      : owned_(std::move(owned)), control_(control) {
    or_abort([&] { share_marks(); });
  }

  int rank() const override { return control_.rank(); }
  int world_size() const override { return control_.world_size(); }
  std::string name() const override { return "copies:" + control_.name(); }
  std::chrono::milliseconds time_limit() const override { return control_.time_limit(); }
  std::string host_of(int rank) const override { return control_.host_of(rank); }
  void abort(const std::string& reason) override { control_.abort(reason); }
  const Traffic& traffic() const override { return traffic_; }
  bool shares_addresses() const override { return true; }
  void exchange_places(const CollectiveCall& call, SendBlocks send,
                       const TakePlace& take) override {
    control_.exchange_places(call, send, take);
  }

  void all_reduce(Span<std::uint64_t> data, IntegerReduce op) override {
    const auto send = to_all(std::as_bytes(data));
    const std::vector<std::int64_t> sizes(send.size(), numel(send.front()));
    CollectiveCall call = call_of(Collective::all_reduce, send, sizes);
    call.reduce = op;
    combine(call, send, data, [&](const auto& words) {
      device::enqueue_combine(words, op, data.data());  // all others have read `data`
    });
  }

 private:
  void exchange(CollectiveCall call, SendBlocks send, Span<const Span<std::byte>> recv) override {
    or_abort([&] { enqueue_exchange(call, send, recv); });
  }

  /// Numbers that base classes exchange for split() and shared_window() are in host memory.
  void exchange_each(CollectiveCall call, SendBlocks send, const TakeBlock& take) override {
    control_.exchange_places(call, send, take);
  }

  void reduce_scatter(CollectiveCall call, Span<const float> send, Span<const std::int64_t> counts,
                      Span<float> recv) override {
    std::vector<Span<const std::byte>> parts;
    std::size_t begin = 0;
    for (const std::int64_t count : counts) {
      parts.push_back(std::as_bytes(send.subspan(begin, count)));
      begin += static_cast<std::size_t>(count);
    }
    combine(call, parts, recv,
            [&](const auto& terms) { device::enqueue_add_ranks(terms, recv.data()); });
  }

  /// The identifier of a group is its first member, which no other group contains.
  std::unique_ptr<Communicator> make_group(const std::vector<int>& members, std::int64_t) override {
    std::unique_ptr<Communicator> group = control_.split(members.front());
    Communicator& control = *group;
    return std::make_unique<DeviceCopies>(control, std::move(group));
  }

  std::unique_ptr<SharedWindow> make_window(const std::vector<std::int64_t>&) override {
    return nullptr;
  }

  /// A rank that fails alone reports it to the others, which would wait for it in their next call.
  template <class Work>
  void or_abort(const Work& work) {
    try {
      work();
    } catch (const std::exception& error) {
      control_.abort(error.what());
      throw;
    }
  }

  /// All ranks own all marks: one may destroy its communicator before another has used its `done`.
  void share_marks() {
    const auto mine = std::make_shared<Marks>();
    const auto send = to_all(std::as_bytes(Span<const std::shared_ptr<Marks>>(&mine, 1)));
    const std::vector<std::int64_t> sizes(send.size(), sizeof(mine));
    control_.exchange_places(
        call_of(Collective::all_gather, send, sizes), send,
        [&](std::size_t, Span<const std::byte> place) {
          const void* const theirs = place.data();
          marks_.push_back(*static_cast<const std::shared_ptr<Marks>*>(theirs));
        });
  }

  bool goes_out(SendBlocks send, std::size_t to) const {
    return to != index(rank()) && !send[to].empty();
  }

  void enqueue_exchange(const CollectiveCall& call, SendBlocks send,
                        Span<const Span<std::byte>> recv) {
    const std::size_t self = index(rank());
    bool sends = false, reads = false;
    for (std::size_t to = 0; to < send.size(); ++to) sends = sends || goes_out(send, to);
    if (sends) marks_[self]->ready.record();
    control_.exchange_places(call, send, [&](std::size_t from, Span<const std::byte> place) {
      if (!place.empty() && from != self) {
        current_stream().wait_for(marks_[from]->ready);
        reads = true;
      }
      if (place.data() != recv[from].data())
        device::enqueue_on_device(recv[from].data(), place.data(), numel(place));
      if (reads && from + 1 == recv.size()) marks_[self]->done.record();
    });
    for (std::size_t to = 0; to < send.size(); ++to) {
      if (goes_out(send, to)) current_stream().wait_for(marks_[to]->done);
    }
    traffic_.of_kind[static_cast<std::size_t>(call.collective)] += traffic_of(call, rank());
  }

  /// Fetches a block of the size of `result` from every rank and enqueues their combination into
  /// it.
  template <class T, class Combine>
  void combine(const CollectiveCall& call, SendBlocks send, Span<T> result,
               const Combine& enqueue_combination) {
    const std::size_t size = result.size_bytes();
    or_abort([&] {
      const Span<std::byte> gathered =
          scratch_.take(world_size() * static_cast<std::int64_t>(size));
      std::vector<Span<std::byte>> recv;
      for (std::size_t from = 0; from < send.size(); ++from) {
        recv.push_back(gathered.subspan(from * size, size));
      }
      enqueue_exchange(call, send, recv);
      if (size == 0) return;
      const void* const blocks = gathered.data();
      enqueue_combination(
          device::GatheredBlocks<T>{static_cast<const T*>(blocks), world_size(), numel(result)});
      scratch_.used();
    });
  }

  std::unique_ptr<Communicator> owned_;
  Communicator& control_;
  std::vector<std::shared_ptr<Marks>> marks_;  // [world_size]
  DeviceScratch scratch_;
  Traffic traffic_;
};

}  // namespace

std::unique_ptr<Communicator> make_device_copies(Communicator& control) {
  ZP_CHECK(control.shares_addresses(), ErrorCode::unavailable,
           "device copies do not work between the ranks of " + control.name(),
           "a copy only reaches device memory of its own process, so ranks must be threads of "
           "one process on one host",
           "use --transport nccl, or --world threads:" + std::to_string(control.world_size()) +
               ", which is one host");
  return std::make_unique<DeviceCopies>(control);
}

}  // namespace zeroproof::cuda
