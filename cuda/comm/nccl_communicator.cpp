#include "cuda/comm/nccl_communicator.hpp"

#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/comm/collective_call.hpp"
#include "common/comm/failure_record.hpp"
#include "cuda/comm/nccl_calls.hpp"
#include "cuda/comm/nccl_collectives.hpp"
#include "cuda/comm/nccl_join.hpp"
#include "cuda/comm/nccl_memory.hpp"
#include "cuda/comm/nccl_watch.hpp"
#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::cuda {

namespace {

using std::chrono::milliseconds;

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

/// Hosts meet only in control, also to determine why a call did not end. A rank that waits in
/// control for another reason is detected immediately; with a separate group, the ranks there would
/// wait for it and it for them, until they report it as absent.
class NcclCommunicator final : public Communicator,
                               public WatchedCommunicator,
                               public WindowedCommunicator,
                               public NcclMember {
 public:
  /// owned: control itself, for a group.
  NcclCommunicator(Communicator& control, const NcclLibrary& library, milliseconds limit,
                   std::unique_ptr<Communicator> owned = nullptr)
      : owned_(std::move(owned)),
        control_(control),
        library_(library),
        limit_(limit),
        handle_(library.functions(), "nccl:" + std::to_string(control.world_size())),
        calls_(control.world_size(), control.rank()),
        collectives_(handle_, control.rank()) {
    or_break([&] { join_ranks(handle_, control_, limit_); });
  }

  /// Enqueued work has to end first, because NCCL would free the buffers that it uses.
  ~NcclCommunicator() override {
    try {
      if (std::uncaught_exceptions() > exceptions_at_start_ || failure_.get())
        return;  // the handle is aborted
      const auto end = std::chrono::steady_clock::now() + limit_;
      while (calls_.ended() < calls_.made()) {
        poll();
        if (std::chrono::steady_clock::now() >= end) return;
        std::this_thread::yield();
      }
      handle_.close(limit_);
    } catch (const std::exception&) {  // no error can be reported here
    }
  }

  int rank() const override { return control_.rank(); }
  int world_size() const override { return control_.world_size(); }
  std::string name() const override { return handle_.name(); }
  std::string host_of(int rank) const override { return control_.host_of(rank); }
  NcclHandle& nccl_handle() override { return handle_; }
  void settle(ncclResult_t result, const std::string& what) override {
    or_break([&] {
      if (handle_.settle(result, what, limit_)) return;
      stop();
      const NcclCause why = cause(limit_);
      if (why.found) throw Error(why.error);
      fail(ErrorCode::timeout, what + " did not end on " + name() + " within " + describe(limit_),
           "all ranks made this call, so a device or a link between two hangs",
           "run it again with NCCL_DEBUG=WARN, or raise the time limit");
    });
  }
  const Traffic& traffic() const override { return calls_.traffic(); }
  std::chrono::milliseconds time_limit() const override { return limit_; }

  std::vector<CollectiveCall> take_captured() override { return calls_.take_captured(); }
  void begin_replay(const std::vector<CollectiveCall>& calls) override {
    failure_.rethrow();
    calls_.begin_replay(calls);
  }
  void end_replay() override { calls_.end_replay(); }

  void all_to_all(Span<const Span<const std::byte>> send,
                  Span<const Span<std::byte>> recv) override {
    require_blocks("all_to_all", send.size(), recv.size());
    CollectiveCall call = call_of(Collective::all_to_all, recv);
    for (const Span<const std::byte> block : send) call.send_bytes.push_back(numel(block));
    run(std::move(call), [&] { return collectives_.all_to_all(send, recv); });
  }

  void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) override {
    require_blocks("all_gather", recv.size(), recv.size());
    require(mine.size() == recv[index(rank())].size(),
            "all_gather got " + std::to_string(mine.size()) + " bytes and a block of " +
                std::to_string(recv[index(rank())].size()) + " for them",
            "the rank receives its own part too", "make the own block as long as the sent data");
    CollectiveCall call = call_of(Collective::all_gather, recv);
    call.send_bytes.assign(recv.size(), numel(mine));
    run(
        std::move(call), [&] { return collectives_.all_gather(mine, recv); },
        [&] { collectives_.finish_gather(recv); });
  }

  void broadcast(Span<std::byte> data, int root) override {
    require(root >= 0 && root < world_size(), "broadcast got root " + std::to_string(root),
            "there are " + std::to_string(world_size()) + " ranks", "use 0 <= root < world_size");
    std::vector<Span<std::byte>> recv(index(world_size()));
    recv[index(root)] = data;
    CollectiveCall call = call_of(Collective::broadcast, recv);
    call.root = root;
    call.send_bytes.assign(recv.size(), rank() == root ? numel(data) : 0);
    run(std::move(call), [&] { return collectives_.broadcast(data, root); });
  }

  void all_reduce(Span<std::uint64_t> data, IntegerReduce op) override {
    ZP_CHECK(op != IntegerReduce::bitwise_or, ErrorCode::unavailable,
             "all_reduce (bitwise_or) was called on " + name(), "NCCL combines no bits",
             "convert every flag to a word and reduce with max");
    const std::int64_t num_bytes = numel(std::as_bytes(data));
    CollectiveCall call;
    call.collective = Collective::all_reduce;
    call.reduce = op;
    call.send_bytes.assign(index(world_size()), num_bytes);
    call.recv_bytes = call.send_bytes;
    run(std::move(call), [&] {
      return collectives_.all_reduce(data, op == IntegerReduce::sum ? ncclSum : ncclMax);
    });
  }

  void native_reduce_scatter(Span<const float> send, Span<const std::int64_t> counts,
                             Span<float> recv) override {
    require_blocks("reduce_scatter", counts.size(), counts.size());
    CollectiveCall call;
    call.collective = Collective::reduce_scatter;
    std::int64_t total = 0;
    bool negative = false;
    for (const std::int64_t count : counts) {
      call.send_bytes.push_back(4 * count);
      total += count;
      negative = negative || count < 0;
    }
    require(
        !negative && total == numel(send) && numel(recv) == counts[index(rank())],
        "reduce_scatter got " + std::to_string(send.size()) + " elements to send and " +
            std::to_string(recv.size()) + " to receive",
        "the counts are " + std::to_string(total) + " and " + std::to_string(counts[index(rank())]),
        "size the buffers by the counts");
    call.recv_bytes.assign(counts.size(), 4 * numel(recv));
    run(std::move(call), [&] { return collectives_.reduce_scatter(send, counts, recv); });
  }

  void barrier() override {
    failure_.rethrow();
    control_.barrier();
  }

  /// A new id over control's group: ncclCommSplit requires that no operation is running, and hangs
  /// otherwise.
  std::unique_ptr<Communicator> split(int colour) override {
    failure_.rethrow();
    std::unique_ptr<Communicator> group = control_.split(colour);
    Communicator& control = *group;
    return std::make_unique<NcclCommunicator>(control, library_, limit_, std::move(group));
  }

  std::unique_ptr<SharedWindow> shared_window(std::int64_t) override { return nullptr; }

  std::unique_ptr<RegisteredBuffer> registered_buffer(std::int64_t num_bytes) override {
    failure_.rethrow();
    std::unique_ptr<RegisteredBuffer> memory;
    or_break([&] { memory = make_nccl_memory(*this, control_, library_, num_bytes); });
    return memory;
  }

  std::unique_ptr<RegisteredBuffer> message_memory(std::int64_t num_bytes) override {
    failure_.rethrow();
    std::unique_ptr<RegisteredBuffer> memory;
    or_break([&] { memory = make_message_memory(*this, library_, num_bytes); });
    return memory;
  }

  void abort(const std::string& reason) override {
    stop();
    static_cast<void>(failure_.keep(ended_error(rank(), reason)));
    control_.abort(reason);
  }

  void poll() override {
    failure_.rethrow();
    if (!under_way()) return;
    or_break([&] { handle_.poll(describe(calls_.last())); });
    calls_.ended();
  }
  bool under_way() const override { return calls_.known_ended() < calls_.made(); }

  void stop() override {
    if (!handle_.alive()) return;
    numbers_ = calls_.numbers();
    handle_.abort();
  }

  NcclCause cause(milliseconds limit) override {
    if (failure_.get()) return {*failure_.get(), true};
    return find_cause(control_, numbers_, name(), limit);
  }

  Error break_with(const Error& error) override {
    const Error kept =
        failure_.keep(Error(error.code(),
                            std::string(error.what()) + " [" + name() + " rank " +
                                std::to_string(rank()) + ", last calls: " + calls_.text() + "]",
                            error.origin()));
    stop();
    control_.abort(error.what());
    return kept;
  }

 private:
  template <class Work>
  void or_break(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      throw Error(break_with(error));
    } catch (const std::exception& error) {
      throw Error(break_with(Error(ErrorCode::internal, error.what())));
    }
  }

  template <class Enqueue, class Finish>
  void run(CollectiveCall call, const Enqueue& enqueue, const Finish& finish) {
    failure_.rethrow();
    or_break([&] {
      const std::string what = describe(calls_.begin(std::move(call)));
      if (!handle_.settle(enqueue(), what, limit_)) {
        stop();
        throw Error(cause(limit_).error);
      }
      finish();
      calls_.enqueued();
    });
  }

  template <class Enqueue>
  void run(CollectiveCall call, const Enqueue& enqueue) {
    run(std::move(call), enqueue, [] {});
  }

  static CollectiveCall call_of(Collective collective, Span<const Span<std::byte>> recv) {
    CollectiveCall call;
    call.collective = collective;
    for (const Span<std::byte> block : recv) call.recv_bytes.push_back(numel(block));
    return call;
  }

  /// A rank that made an invalid call reports it to the others, which would otherwise wait for it.
  void require(bool condition, const std::string& problem, const std::string& why,
               const std::string& remedy) {
    failure_.rethrow();
    if (condition) return;
    abort(problem);
    fail(ErrorCode::invalid_argument, problem, why, remedy);
  }

  void require_blocks(const std::string& call, std::size_t sent, std::size_t received) {
    require(sent == index(world_size()) && received == sent,
            call + " got " + std::to_string(sent) + " blocks to send and " +
                std::to_string(received) + " to receive",
            "there are " + std::to_string(world_size()) + " ranks",
            "pass one block per rank, empty blocks included");
  }

  std::unique_ptr<Communicator> owned_;
  Communicator& control_;
  const NcclLibrary& library_;
  milliseconds limit_;
  NcclHandle handle_;
  NcclCalls calls_;
  NcclCollectives collectives_;
  FailureRecord failure_;
  std::vector<std::int64_t> numbers_;  // calls_ as numbers when it was stopped
  const int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& control,
                                                     const NcclLibrary& library,
                                                     milliseconds limit) {
  return std::make_unique<NcclCommunicator>(control, library, limit);
}

}  // namespace zeroproof::cuda
