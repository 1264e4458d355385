// Memory with windows, and the rules of windows that NCCL does not check.

#include <doctest.h>

#include <cstdint>
#include <vector>

#include "common/comm/self.hpp"
#include "cuda/comm/nccl_memory.hpp"
#include "tests/cuda/comm/nccl/nccl_support.hpp"
#include "tests/cuda/expect_error.hpp"

namespace nccl_memory_test {

using namespace zeroproof;
using namespace zeroproof::copies_test;
using namespace zeroproof::nccl_test;
using cuda::make_nccl_communicator;
using cuda::NcclMemory;

namespace {

/// A gather in one block of memory, with the own part in place.
void gather(Communicator& comm, Span<std::byte> memory) {
  const auto ranks = static_cast<std::size_t>(comm.world_size());
  const std::size_t size = memory.size() / ranks;
  std::vector<Span<std::byte>> recv;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    recv.push_back(memory.subspan(rank * size, size));
  const auto own = recv[comm.rank()];
  cuda::device::enqueue_fill(own.data(), value(0, comm.rank()), numel(own));
  comm.all_gather(own, recv);
}

}  // namespace

TEST_CASE("nccl memory: a gather in windows of all ranks") {
  for (const int world_size : {1, 2, 3}) {
    check_ranks(world_size, [](Communicator& control) {
      const auto comm = make_nccl_communicator(control, fake());
      const int ranks = control.world_size();
      NcclMemory memory(fake(), 5 * ranks);
      CHECK(numel(memory.bytes()) == 5 * ranks);
      memory.register_with(*comm);
      gather(*comm, memory.bytes());
      Bytes got(memory.bytes().size()), expected;
      device_test::get(got.data(), memory.bytes().data(), numel(memory.bytes()));
      for (int rank = 0; rank < ranks; ++rank) expected.insert(expected.end(), 5, value(0, rank));
      CHECK(got == expected);
      memory.deregister();
      memory.deregister();
      memory.register_with(*comm);  // and again
    });
  }
}

TEST_CASE("nccl memory: use after deregistration and windows on some ranks only are reported") {
  const auto run =
      [](const std::function<void(Communicator & comm, NcclMemory & memory, int rank)>& work) {
        ThreadWorld world(2);
        run_ranks_and_streams(world, [&](Communicator& control) {
          const auto comm = make_nccl_communicator(control, fake());
          NcclMemory memory(fake(), 64);
          memory.register_with(*comm);
          work(*comm, memory, control.rank());
          cuda::device::wait_for_stream();
          control.barrier();
        });
        return complaints();
      };
  CHECK(run([](Communicator& comm, NcclMemory& memory, int) {
          gather(comm, memory.bytes());
        }).empty());
  contains(run([](Communicator& comm, NcclMemory& memory, int) {
             memory.deregister();
             gather(comm, memory.bytes());
           }),
           "uses a window after its deregistration");
  contains(run([](Communicator& comm, NcclMemory& memory, int rank) {
             const DeviceBytes other(64);
             gather(comm, rank == 0 ? memory.bytes() : on_device<std::byte>(other, 64));
           }),
           "has a window where rank 0 has none, or vice versa");
}

TEST_CASE("nccl memory: invalid calls are refused") {
  const auto self = make_self_communicator();
  tests::expect_error(ErrorCode::invalid_argument, [] { NcclMemory memory(fake(), 0); });
  NcclMemory memory(fake(), 8);
  tests::expect_error(ErrorCode::invalid_argument, [&] { memory.register_with(*self); });
  const auto comm = make_nccl_communicator(*self, fake());
  memory.register_with(*comm);
  tests::expect_error(ErrorCode::invalid_argument, [&] { memory.register_with(*comm); });
  memory.deregister();
  CHECK(NcclMemory::offered(fake()));
  CHECK(complaints().empty());
}

TEST_CASE("nccl memory: a window that one rank does not register ends both ranks") {
  const Outcome outcome = run_failing(2, [](Communicator& control) {
    const auto comm = make_nccl_communicator(control, fake(), nccl_test::short_limit);
    NcclMemory memory(fake(), 8);
    if (control.rank() == 1) return control.barrier();
    memory.register_with(*comm);
  });
  for (const std::string& text : outcome.texts)
    contains(text,
             "rank 0 calls all_gather #3, rank 1 calls barrier #3");  // rank 0 collects the cause
  contains(outcome.texts[0], "after one did not end within 300 ms");
}

TEST_CASE("nccl memory: the communicator provides it on all ranks or on none") {
  check_ranks(3, [](Communicator& control) {
    const auto comm = make_nccl_communicator(control, fake());
    const auto memory = cuda::registered_buffer(*comm, 5, DType::bf16);
    REQUIRE(memory != nullptr);
    CHECK(numel(memory->bytes()) == GuardedBuffer::footprint(5, DType::bf16));
    CHECK(cuda::registered_buffer(*comm, 0, DType::bf16) == nullptr);
    CHECK(cuda::registered_buffer(control, 5, DType::bf16) == nullptr);
  });
  const UsePlan plan("version=2.26.9");
  check_ranks(2, [](Communicator& control) {
    CHECK(cuda::registered_buffer(*make_nccl_communicator(control, fake()), 5, DType::bf16) ==
          nullptr);
  });
}

TEST_CASE("nccl memory: it is freed after the work that uses it") {
  check_ranks(2, [](Communicator& control) {
    const auto comm = make_nccl_communicator(control, fake());
    const auto memory = cuda::registered_buffer(*comm, 50, DType::fp32);
    cuda::device::enqueue_fill(memory->bytes().data(), 1, numel(memory->bytes()));
  });
}

TEST_CASE("nccl memory: unequal sizes are reported") {
  const Outcome outcome = run_failing(2, [](Communicator& control) {
    const auto comm = make_nccl_communicator(control, fake(), nccl_test::short_limit);
    cuda::registered_buffer(*comm, control.rank() == 0 ? 32 : 64, DType::fp32);
  });
  for (const std::string& text : outcome.texts)
    contains(text, "windows of 256 to 384 bytes on the ranks");
}

TEST_CASE("nccl memory: a window that is refused on one rank ends the others in time") {
  const UsePlan plan("fail=register:1:1");
  const Outcome outcome = run_failing(3, [](Communicator& control) {
    const auto comm = make_nccl_communicator(control, fake(), nccl_test::short_limit);
    cuda::registered_buffer(*comm, 1, DType::fp32);
  });
  for (const std::string& text : outcome.texts)
    contains(text,
             "the registration of a window failed on nccl:3 (NCCL says: internal error: planned to "
             "fail");
  CHECK(complaints().empty());
}

namespace {

/// Every rank sends to every other one from one block of memory and receives in it, after the sent
/// data.
void exchange(Communicator& comm, Span<std::byte> memory) {
  const auto ranks = static_cast<std::size_t>(comm.world_size());
  const std::size_t size = memory.size() / (2 * ranks);
  std::vector<Span<const std::byte>> send;
  std::vector<Span<std::byte>> recv;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    send.push_back(memory.subspan(rank * size, size));
    recv.push_back(memory.subspan((ranks + rank) * size, size));
  }
  cuda::device::enqueue_fill(memory.data(), value(0, comm.rank()),
                             static_cast<std::int64_t>(ranks * size));
  comm.all_to_all(send, recv);
}

long long received_in_messages() {
  return fake_function<long long()>("zp_fake_nccl_received_in_messages")();
}

}  // namespace

TEST_CASE("nccl memory: messages in memory that each rank registers separately") {
  for (const int world_size : {2, 3}) {
    const long long before = received_in_messages();
    check_ranks(world_size, [](Communicator& control) {
      const auto all = make_nccl_communicator(control, fake());
      const auto again = all->split(0);
      const std::int64_t part = 2 * control.world_size();
      Communicator* const comms[] = {nullptr, all.get(), &control, again.get()};
      const auto memory = cuda::message_memory(comms, part * 7 + 100 * control.rank(), DType::e4m3);
      REQUIRE(memory != nullptr);
      for (Communicator* const comm : {all.get(), again.get()})
        exchange(*comm, memory->bytes().first(part * 7));
      Bytes got(static_cast<std::size_t>(part) / 2 * 7), expected;
      device_test::get(got.data(), memory->bytes().data() + got.size(),
                       static_cast<std::int64_t>(got.size()));
      for (int rank = 0; rank < control.world_size(); ++rank)
        expected.insert(expected.end(), 7, value(0, rank));
      CHECK(got == expected);
    });
    // In both orders of streams, on two communicators.
    CHECK(received_in_messages() - before == 4 * world_size * (world_size - 1));
  }
  const UsePlan plan("version=2.26.9");
  check_ranks(2, [](Communicator& control) {
    const auto comm = make_nccl_communicator(control, fake());
    Communicator* const comms[] = {comm.get()};
    CHECK(cuda::message_memory(comms, 5, DType::bf16) == nullptr);
  });
}

TEST_CASE("nccl memory: messages in deregistered memory are reported") {
  ThreadWorld world(2);
  run_ranks_and_streams(world, [&](Communicator& control) {
    const auto comm = make_nccl_communicator(control, fake());
    NcclMemory memory(fake(), 64);
    memory.also_for(*comm);
    if (control.rank() == 1) memory.deregister();
    exchange(*comm, memory.bytes());
    cuda::device::wait_for_stream();
    control.barrier();
  });
  contains(complaints(), "uses a window after its deregistration");
}

}  // namespace nccl_memory_test
