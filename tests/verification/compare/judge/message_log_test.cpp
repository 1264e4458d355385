// The log of messages names a message that arrived with other bytes than were sent.

#include <doctest.h>

#include <array>
#include <functional>
#include <vector>

#include "common/comm/threads.hpp"
#include "common/comm/wrapped_communicator.hpp"
#include "tests/verification/training/training_support.hpp"
#include "verification/compare/judge/message_log.hpp"
#include "verification/training/ranks/world.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

constexpr int world = 3;

/// A transport that changes received blocks: edit(number of the call, rank that sent, block).
class EditingTransport final : public WrappedCommunicator {
 public:
  using Edit = std::function<void(int call, int from, Span<std::byte> block)>;
  EditingTransport(Communicator& inner, Edit edit)
      : WrappedCommunicator(inner), edit_(std::move(edit)) {}

  void all_to_all(Span<const Span<const std::byte>> send,
                  Span<const Span<std::byte>> recv) override {
    inner_.all_to_all(send, recv);
    edit(recv);
  }
  void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) override {
    inner_.all_gather(mine, recv);
    edit(recv);
  }
  void broadcast(Span<std::byte> data, int root) override {
    inner_.broadcast(data, root);
    ++calls_;
    if (rank() != root) edit_(calls_, root, data);
  }

 private:
  void edit(Span<const Span<std::byte>> recv) {
    ++calls_;
    for (int from = 0; from < world; ++from) {
      if (from != rank()) edit_(calls_, from, recv[from]);
    }
  }

  const Edit edit_;
  int calls_ = 0;
};

/// Blocks of odd lengths, some of them empty.
std::size_t block_bytes(int from, int to) {
  return static_cast<std::size_t>((5 * from + 3 * to) % 7);
}

void run_calls(Communicator& comm) {
  std::vector<std::vector<std::byte>> sent, received;
  for (int peer = 0; peer < world; ++peer) {
    sent.emplace_back(block_bytes(comm.rank(), peer), std::byte{0x40});
    received.emplace_back(block_bytes(peer, comm.rank()));
  }
  const std::vector<Span<const std::byte>> send(sent.begin(), sent.end());
  const std::vector<Span<std::byte>> recv(received.begin(), received.end());
  comm.barrier();               // call 1
  comm.all_to_all(send, recv);  // 2
  std::uint64_t word = 1;
  comm.all_reduce({&word, 1}, IntegerReduce::sum);  // 3
  std::vector<std::vector<std::byte>> all;
  for (int peer = 0; peer < world; ++peer) all.emplace_back(peer == 1 ? 0 : 9);
  const std::vector<Span<std::byte>> places(all.begin(), all.end());
  comm.all_gather(places[comm.rank()], places);  // 4
  std::array<std::byte, 5> data{};
  comm.broadcast(data, 2);  // 5
}

using Found = std::array<std::optional<BrokenMessage>, world>;

/// Runs the calls twice, the second time through the edits.
Found found_on_each_rank(bool as_replicas,
                         const std::function<EditingTransport::Edit(int rank)>& edit_of) {
  Found found;
  ThreadWorld candidate(world), harness(world);
  run_ranks(harness, [&](Communicator& witness) {
    const int rank = witness.rank();
    const auto comm = candidate.communicator(rank);
    bool second = false;
    const EditingTransport::Edit edit = edit_of(rank);
    EditingTransport transport(*comm, [&](int call, int from, Span<std::byte> block) {
      if (second && edit) edit(call - 3, from, block);
    });
    OptimizerSetup setup, check;
    (as_replicas ? setup.replicas : setup.comm) = &transport;
    (as_replicas ? check.replicas : check.comm) = &witness;
    MessageLog log;
    log.place(setup);
    Communicator& logged = as_replicas ? *setup.replicas : *setup.comm;
    run_calls(logged);
    CHECK_FALSE(log.check(check, 10 + rank).has_value());
    second = true;
    run_calls(logged);
    found[rank] = log.check(check, 10 + rank);
    CHECK_FALSE(log.check(check, 10 + rank).has_value());  // was forgotten
  });
  return found;
}

void flip(Span<std::byte> block, std::size_t byte) { block[byte] ^= std::byte{1}; }

}  // namespace

TEST_CASE("MessageLog: names collective, ranks and byte of a broken block, on its receiver alone") {
  // all_to_all from rank 2 to rank 1: 6 bytes; the edits count data calls: 1, 2 and 3.
  const Found found = found_on_each_rank(false, [](int rank) -> EditingTransport::Edit {
    if (rank != 1) return {};
    return [](int call, int from, Span<std::byte> block) {
      if (call == 1 && from == 2) flip(block, 3), flip(block, 5);
      if (call == 2 && from == 0) flip(block, 0);  // later, so not the first
    };
  });
  CHECK_FALSE(found[0].has_value());
  CHECK_FALSE(found[2].has_value());
  REQUIRE(found[1].has_value());
  CHECK(describe(*found[1]) ==
        "all_to_all #7 of shards, from rank 12 to rank 11: byte 3 of 6 was sent as 0x40 and "
        "received as "
        "0x41; 2 bytes differ");
}

TEST_CASE("MessageLog: names a broken all_gather and a broken broadcast of instances") {
  const Found found = found_on_each_rank(true, [](int rank) -> EditingTransport::Edit {
    return [rank](int call, int from, Span<std::byte> block) {
      if (rank == 0 && call == 2 && from == 2) flip(block, 8);
      if (rank == 1 && call == 3) flip(block, 4);
    };
  });
  REQUIRE(found[0].has_value());
  REQUIRE(found[1].has_value());
  CHECK_FALSE(found[2].has_value());
  CHECK(describe(*found[0]) ==
        "all_gather #9 of instances, from rank 12 to rank 10: byte 8 of 9 was sent as 0x00 and "
        "received "
        "as 0x01; no other byte differs");
  CHECK(describe(*found[1]) ==
        "broadcast #10 of instances, from rank 12 to rank 11: byte 4 of 5 was sent as 0x00 and "
        "received "
        "as 0x01; no other byte differs");
}

TEST_CASE("RankComparison: a byte of a gradient that arrives wrong is reported with its message") {
  using namespace zeroproof::tests;
  TinyTraining run(DType::bf16);
  const CaseSpec spec = run.spec(world, 2);
  const auto threads = make_local_world(spec.world, 60);
  const CaseLayout layout(run.experiment, spec, world);
  std::array<std::unique_ptr<EditingTransport>, world> transport;
  std::array<std::unique_ptr<RankComparison>, world> ranks;
  threads->run([&](int rank, RankComparison::Communicators comms) {
    bool flipped = rank != 1;
    transport[rank] = std::make_unique<EditingTransport>(
        *comms.candidate, [flipped](int, int from, Span<std::byte> block) mutable {
          // 1024 elements in fp32: gradients. Rank 0 sends as many parameters in 2 bytes each.
          if (flipped || from != 0 || block.size() != 4096) return;
          flip(block, 120);
          flipped = true;
        });
    comms.candidate = transport[rank].get();
    comms.keep_messages = true;
    ranks[rank] =
        std::make_unique<RankComparison>(run.experiment, spec, layout, comms, 1, host_optimizer());
  });
  threads->run([&](int rank, const RankComparison::Communicators&) {
    ranks[rank]->run_step(1, run.leaves, nullptr);
  });
  REQUIRE(ranks[1]->divergence().has_value());
  const Divergence& first = *ranks[1]->divergence();
  CHECK(first.buffer == "grad_sum");
  CHECK(first.shard_index == 30);
  CHECK(first.differing == 1);
  REQUIRE(first.message.has_value());
  CHECK(first.message->collective == "all_to_all");
  CHECK((first.message->from == 0 && first.message->to == 1));
  CHECK((first.message->first == 120 && first.message->differing == 1));
  CHECK(describe(first).find("received in all_to_all #") != std::string::npos);
}
