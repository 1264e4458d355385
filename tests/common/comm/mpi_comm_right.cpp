// Modes of mpi_comm_test without a failure.

#include <cstdlib>
#include <memory>
#include <thread>

#include "mpi_comm_checks.hpp"
#include "mpi_comm_modes.hpp"

namespace zeroproof_test {

int run_collectives(int rank) {
  Checks checks(rank);
  for (const std::int64_t max_message_bytes :
       {std::int64_t{1} << 24, std::int64_t{1000}, std::int64_t{7}}) {
    const auto comm = make_mpi_communicator(default_comm_timeout, max_message_bytes);
    checks.check(comm->name() == "mpi:" + std::to_string(comm->world_size()), "name");
    for (std::int64_t round = 0; round < 12; ++round) {
      const std::string where =
          ", round " + std::to_string(round) + ", pieces " + std::to_string(max_message_bytes);
      checks.check(all_to_all_is_right(*comm, round), "all_to_all" + where);
      checks.check(all_gather_is_right(*comm, round, round % 2 == 0), "all_gather" + where);
      checks.check(broadcast_is_right(*comm, round), "broadcast" + where);
      checks.check(all_reduce_is_right(*comm, round, IntegerReduce::sum), "sum" + where);
      checks.check(all_reduce_is_right(*comm, round, IntegerReduce::max), "max" + where);
      checks.check(all_reduce_is_right(*comm, round, IntegerReduce::bitwise_or),
                   "bitwise_or" + where);
      comm->barrier();
    }
    // Longer than the eager limit of the MPI library, so that both sides must take part.
    std::vector<Bytes> blocks;
    for (int peer = 0; peer < comm->world_size(); ++peer)
      blocks.push_back(block(99, peer, 0, 20'000));
    const std::vector<Bytes> expected = blocks;
    for (int peer = 0; peer < comm->world_size(); ++peer) {
      if (peer != rank) blocks[peer].assign(20'000, std::byte{0});
    }
    comm->all_gather(blocks[rank], writable(blocks));
    checks.check(blocks == expected,
                 "long all_gather, pieces " + std::to_string(max_message_bytes));
  }
  return checks.agree(*make_mpi_communicator());
}

int run_groups(int rank) {
  Checks checks(rank);
  for (const std::int64_t max_message_bytes : {std::int64_t{1} << 24, std::int64_t{7}}) {
    const auto comm = make_mpi_communicator(default_comm_timeout, max_message_bytes);
    checks.check(!comm->host_of(0).empty(), "host");
    for (std::int64_t round = 0; round < 4; ++round) {
      const std::string where =
          ", round " + std::to_string(round) + ", pieces " + std::to_string(max_message_bytes);
      checks.check(groups_are_right(*comm, round), "groups" + where);
      checks.check(grid_is_right(*comm, 2, round), "grid" + where);
      checks.check(float_sum_is_right(*comm, round), "float sum" + where);
      checks.check(float_sum_is_right(*comm, round, 10), "long float sum" + where);
      checks.check(window_is_right(*comm, round), "window" + where);
      const auto group = comm->split(rank % 2);
      checks.check(float_sum_is_right(*group, round, 10), "float sum of a group" + where);
      checks.check(window_is_right(*group, round), "window of a group" + where);
    }
    const auto group = comm->split(rank % 2);
    bool right = true;
    std::thread beside([&] {
      for (std::int64_t round = 0; round < 50; ++round)
        right &= all_collectives_are_right(*group, round);
    });
    for (std::int64_t round = 0; round < 50; ++round)
      checks.check(all_collectives_are_right(*comm, round + 7), "world beside a group");
    beside.join();
    checks.check(right, "group in another thread");
  }
  return checks.agree(*make_mpi_communicator());
}

int run_large(int rank) {
  Checks checks(rank);
  constexpr std::size_t num_bytes = (std::size_t{1} << 31) + 5;
  // calloc: unwritten pages use no memory.
  const std::unique_ptr<std::byte, void (*)(void*)> data(
      static_cast<std::byte*>(std::calloc(num_bytes, 1)), std::free);
  checks.check(data != nullptr, "memory for the large block");
  // Pieces of the maximum int length, which take some time.
  const auto comm = make_mpi_communicator(std::chrono::minutes(10), (std::int64_t{1} << 31) - 1);
  const Span<std::byte> all(data.get(), num_bytes);
  const std::array<std::size_t, 4> marks = {0, (std::size_t{1} << 31) - 1, std::size_t{1} << 31,
                                            num_bytes - 1};
  if (rank == 0) {
    for (const std::size_t mark : marks) all[mark] = static_cast<std::byte>(1 + mark % 251);
  }
  comm->broadcast(all, 0);
  for (const std::size_t mark : marks) {
    checks.check(all[mark] == static_cast<std::byte>(1 + mark % 251),
                 "byte " + std::to_string(mark));
  }
  return checks.agree(*comm);
}

int run_slow(int rank) {
  Checks checks(rank);
  const auto comm = make_mpi_communicator(3 * short_limit);
  for (int round = 0; round < 2; ++round) {
    if (rank == bad_rank) std::this_thread::sleep_for(2 * short_limit);
    checks.check(all_gather_is_right(*comm, round, false), "all_gather");
    checks.check(all_to_all_is_right(*comm, round), "all_to_all");
  }
  return checks.agree(*comm);
}

/// Ranks on several hosts. Only ranks of one host have a window.
int run_hosts(int rank) {
  Checks checks(rank);
  const auto comm = make_mpi_communicator();
  const std::string host = comm->host_of(rank);
  std::printf("rank %d runs on %s\n", rank, host.c_str());
  int first_there = 0;
  while (comm->host_of(first_there) != host) ++first_there;
  const auto neighbours = comm->split(first_there);
  const auto others = comm->split(rank - first_there);
  checks.check(neighbours->world_size() < comm->world_size(), "there are several hosts");
  checks.check(!comm->shared_window(8), "no window over hosts");
  for (std::int64_t round = 0; round < 3; ++round) {
    checks.check(groups_are_right(*comm, round), "groups");
    checks.check(float_sum_is_right(*comm, round), "float sum");
    checks.check(all_collectives_are_right(*others, round), "group over hosts");
    checks.check(window_is_right(*neighbours, round), "window of one host");
  }
  return checks.agree(*comm);
}

}  // namespace zeroproof_test
