// mpirun -n N mpi_comm_test [MODE]. Rank 1 misbehaves as MODE says; the other ranks must end in time and name
// it.
//
//   collectives   nobody misbehaves; every collective against brute force, in whole blocks and in pieces
//   groups        nobody misbehaves; groups, sums of floats and shared windows against brute force
//   slow          comes late, but in time, again and again
//   large         nobody misbehaves; one block of more than 2^31 bytes
//   mismatch      calls another collective than the others
//   throws        aborts with a reason
//   left          ends its communicator while the others still call
//   absent        comes too late
//   counts        broadcasts another number of bytes
//   killed        dies of SIGKILL: mpirun fails; look for the line "rank R names rank 1" of every other rank
//   stopped       is stopped with SIGSTOP: mpirun fails; the same line
//   killed_busy, stopped_busy   the same while data moves
//   group_throws  aborts in a group, while others wait in theirs, in the world, or in a group within a group
//   group_mismatch, group_left, group_absent   the same in a group
//   group_killed, group_stopped   the same signals while others wait in a group
//   hosts         nobody misbehaves; says where each rank runs, and checks collectives, groups and windows
//   cut           nobody misbehaves, but hosts lose each other: who is left says which ranks went silent, and ends
//   native_stopped  is stopped while the others are inside MPI's own sum: they end with exit code 5
//
// Exit code 0 if all checks passed on all ranks, 1 if not; after a signal: what mpirun makes of it, never 0.

#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm_group_cases.hpp"
#include "common/base/error.hpp"
#include "common/comm/mpi_communicator.hpp"

using namespace zeroproof;
using namespace zeroproof_test;

namespace {

constexpr int bad_rank = 1;
constexpr std::chrono::milliseconds short_limit{1000};
constexpr std::chrono::seconds promptly{15};  // generous: the machine may be busy

class Checks {
 public:
  explicit Checks(int rank) : rank_(rank) {}

  void check(bool condition, const std::string& what) {
    ++done_;
    if (condition) return;
    ++failed_;
    std::fprintf(stderr, "rank %d: FAILED %s\n", rank_, what.c_str());
  }

  /// Adds the failures of all ranks up; returns the exit code.
  int agree(Communicator& comm) const {
    std::array<std::uint64_t, 2> sums = {done_, failed_};
    comm.all_reduce(sums, IntegerReduce::sum);
    if (comm.rank() == 0) {
      std::printf("%d ranks: %llu checks %s\n", comm.world_size(), static_cast<unsigned long long>(sums[0]),
                  sums[1] == 0 ? "passed" : "made, some FAILED");
    }
    return sums[1] == 0 ? 0 : 1;
  }

 private:
  int rank_;
  std::uint64_t done_ = 0;
  std::uint64_t failed_ = 0;
};

int run_collectives(int rank) {
  Checks checks(rank);
  for (const std::int64_t max_message_bytes : {std::int64_t{1} << 24, std::int64_t{1000}, std::int64_t{7}}) {
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
      checks.check(all_reduce_is_right(*comm, round, IntegerReduce::bitwise_or), "bitwise_or" + where);
      comm->barrier();
    }
    // Longer than what the MPI library sends unasked, so that both sides must take part.
    std::vector<Bytes> blocks;
    for (int peer = 0; peer < comm->world_size(); ++peer) blocks.push_back(block(99, peer, 0, 20'000));
    const std::vector<Bytes> want = blocks;
    for (int peer = 0; peer < comm->world_size(); ++peer) {
      if (peer != rank) blocks[static_cast<std::size_t>(peer)].assign(20'000, std::byte{0});
    }
    comm->all_gather(blocks[static_cast<std::size_t>(rank)], writable(blocks));
    checks.check(blocks == want, "long all_gather, pieces " + std::to_string(max_message_bytes));
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
      for (std::int64_t round = 0; round < 50; ++round) right &= all_collectives_are_right(*group, round);
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
  // calloc: pages that nobody writes take no memory.
  const std::unique_ptr<std::byte, void (*)(void*)> data(static_cast<std::byte*>(std::calloc(num_bytes, 1)),
                                                         std::free);
  checks.check(data != nullptr, "memory for the large block");
  // Pieces as long as an int can count, which take their time.
  const auto comm = make_mpi_communicator(std::chrono::minutes(10), (std::int64_t{1} << 31) - 1);
  const Span<std::byte> all(data.get(), num_bytes);
  const std::array<std::size_t, 4> marks = {0, (std::size_t{1} << 31) - 1, std::size_t{1} << 31,
                                            num_bytes - 1};
  if (rank == 0) {
    for (const std::size_t mark : marks) all[mark] = static_cast<std::byte>(1 + mark % 251);
  }
  comm->broadcast(all, 0);
  for (const std::size_t mark : marks) {
    checks.check(all[mark] == static_cast<std::byte>(1 + mark % 251), "byte " + std::to_string(mark));
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

struct Failure {
  std::string text;
  ErrorCode code = ErrorCode::internal;
  std::chrono::duration<double> time{};
};

Failure failure_of(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  Failure failure;
  try {
    call();
  } catch (const Error& error) {
    failure.text = error.what();
    failure.code = error.code();
  }
  failure.time = std::chrono::steady_clock::now() - begin;
  return failure;
}

bool starts_with(const std::string& text, const std::string& begin) {
  return text.substr(0, begin.size()) == begin;
}

/// The error must be the same on all ranks that are alive, at once and in later calls.
int check_failure(Communicator& comm, const Failure& failure, ErrorCode code, const std::string& begin) {
  Checks checks(comm.rank());
  checks.check(failure.code == code && starts_with(failure.text, begin), "error: " + failure.text);
  checks.check(failure.time < promptly, "took " + std::to_string(failure.time.count()) + " s");
  const Failure later = failure_of([&] { comm.barrier(); });
  checks.check(later.text == failure.text && later.code == code, "later error: " + later.text);
  const auto fresh = make_mpi_communicator();
  std::vector<Bytes> texts(static_cast<std::size_t>(comm.world_size()), Bytes(failure.text.size()));
  fresh->all_gather(std::as_bytes(Span<const char>(failure.text)), writable(texts));
  for (const Bytes& text : texts) checks.check(text == texts[0], "the text differs between ranks");
  return checks.agree(*fresh);
}

int run_mismatch(int rank) {
  const auto comm = make_mpi_communicator();
  Bytes data(8);
  comm->barrier();
  const Failure failure = failure_of([&] {
    if (rank == bad_rank)
      comm->broadcast(data, 1);
    else
      comm->barrier();
  });
  return check_failure(*comm, failure, ErrorCode::comm, "the ranks are not in the same collective: rank");
}

int run_counts(int rank) {
  const auto comm = make_mpi_communicator();
  Bytes data(rank == bad_rank ? 9 : 8);
  const Failure failure = failure_of([&] { comm->broadcast(data, 0); });
  return check_failure(
      *comm, failure, ErrorCode::comm,
      "the ranks disagree about counts: in broadcast #1 from root 0 rank 0 sends 8 bytes to rank 1, "
      "which expects 9 (");
}

int run_throws(int rank) {
  const auto comm = make_mpi_communicator();
  comm->barrier();
  const Failure failure = failure_of([&] {
    if (rank == bad_rank) comm->abort("no space on the disk");
    comm->barrier();
  });
  return check_failure(*comm, failure, ErrorCode::comm, "rank 1 ended: no space on the disk");
}

int run_left(int rank) {
  Checks checks(rank);
  {
    const auto comm = make_mpi_communicator();
    comm->barrier();
    if (rank != bad_rank) {
      const Failure failure = failure_of([&] { comm->barrier(); });
      checks.check(starts_with(failure.text, "rank 1 left without calling barrier #2 ("),
                   "error: " + failure.text);
      checks.check(failure.code == ErrorCode::comm && failure.time < promptly, "code or time");
    }
  }
  return checks.agree(*make_mpi_communicator());
}

int run_absent(int rank) {
  const auto comm = make_mpi_communicator(short_limit);
  comm->barrier();
  if (rank == bad_rank) std::this_thread::sleep_for(short_limit + std::chrono::seconds(1));
  const Failure failure = failure_of([&] { comm->barrier(); });
  return check_failure(*comm, failure, ErrorCode::timeout,
                       "rank 1 did not arrive at barrier #2 within 1 s (");
}

/// Even ranks are one group, odd ranks the other: the bad rank's group has three members or more if there are 6
/// ranks, and the other group, which loses nobody, goes on until it hears of it.
struct Groups {
  std::unique_ptr<Communicator> world, group;

  explicit Groups(std::chrono::milliseconds limit = default_comm_timeout)
      : world(make_mpi_communicator(limit)), group(world->split(world->rank() % 2)) {}

  void go_on() {
    group->barrier();
    if (world->rank() == 3) world->barrier();
    while (true) group->barrier();
  }
};

int run_group_throws(int) {
  Groups comms;
  std::unique_ptr<Communicator> inner;
  const Failure failure = failure_of([&] {
    inner = comms.group->split(0);
    if (comms.world->rank() == 5) inner->abort("no space on the disk");
    if (comms.world->rank() == 1) inner->barrier();
    comms.go_on();
  });
  return check_failure(*comms.world, failure, ErrorCode::comm,
                       "rank 2 (rank 5 of the world) ended: no space on the disk");
}

int run_group_mismatch(int rank) {
  Groups comms;
  Bytes data(rank == bad_rank ? 9 : 8);
  const Failure failure = failure_of([&] {
    if (rank % 2 == 1) comms.group->broadcast(data, 1);
    comms.go_on();
  });
  return check_failure(*comms.world, failure, ErrorCode::comm,
                       "the ranks disagree about counts: in broadcast #1 from root 1 rank 1 (rank 3 of the "
                       "world) sends 8 bytes to rank 0 (rank 1 of the world), which expects 9 (");
}

int run_group_left(int rank) {
  Groups comms;
  const Failure failure = failure_of([&] {
    if (rank == bad_rank) comms.group.reset();
    if (rank == bad_rank) comms.world->barrier();
    if (rank == 3) comms.group->barrier();
    comms.go_on();
  });
  return check_failure(*comms.world, failure, ErrorCode::comm,
                       "rank 0 (rank 1 of the world) left without calling barrier #1 (");
}

int run_group_absent(int rank) {
  Groups comms(short_limit);
  const Failure failure = failure_of([&] {
    if (rank == bad_rank) std::this_thread::sleep_for(short_limit + std::chrono::seconds(1));
    // Waits in the world: not to blame for being late in its group.
    if (rank == 3) std::this_thread::sleep_for(short_limit / 5);
    if (rank == 3) comms.world->barrier();
    comms.go_on();
  });
  return check_failure(*comms.world, failure, ErrorCode::timeout,
                       "rank 0 (rank 1 of the world) did not arrive at barrier #1 within 1 s (");
}

/// As run_signal, while the others wait in the group of the bad rank, or go on in theirs.
int run_group_signal(int rank, int signal, bool native) {
  Groups comms(signal == SIGSTOP ? std::chrono::milliseconds(2000) : default_comm_timeout);
  if (native) {
    // Long enough that nearly all time is spent inside MPI.
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(comms.group->world_size()), 4'000'000);
    const std::vector<float> send(counts.size() * 4'000'000);
    std::vector<float> sum(4'000'000);
    std::thread([rank, signal] {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      if (rank == bad_rank) kill(getpid(), signal);
    }).detach();
    while (true) comms.group->native_reduce_scatter(send, counts, sum);
  }
  if (rank == bad_rank) std::raise(signal);
  const Failure failure = failure_of([&] { comms.go_on(); });
  if (rank == bad_rank) return 1;  // a stopped rank goes on when mpirun ends it
  const bool named =
      (starts_with(failure.text, "rank 0 (rank 1 of the world) ") || starts_with(failure.text, "rank 1 ")) &&
      failure.time < promptly;
  std::printf("rank %d %s rank 1 after %.1f s: %s\n", rank, named ? "names" : "FAILED to name",
              failure.time.count(), failure.text.c_str());
  std::fflush(stdout);
  return 1;
}

/// What is left of the job cannot be asked for an agreement: each rank prints a line of its own.
int run_signal(int rank, int signal, bool busy) {
  const auto comm =
      make_mpi_communicator(signal == SIGSTOP ? std::chrono::milliseconds(2000) : default_comm_timeout);
  comm->barrier();
  std::thread signaller;
  if (rank == bad_rank) {
    if (!busy) std::raise(signal);
    signaller = std::thread([signal] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      kill(getpid(), signal);
    });
  }
  std::vector<Bytes> blocks(static_cast<std::size_t>(comm->world_size()), Bytes(busy ? 3'000'000 : 0));
  const Failure failure = failure_of([&] {
    do comm->all_gather(blocks[static_cast<std::size_t>(rank)], writable(blocks));
    while (busy);
  });
  if (signaller.joinable()) signaller.join();
  if (rank == bad_rank) return 1;  // a stopped rank goes on when mpirun ends it
  const bool named = starts_with(failure.text, "rank 1 ") && failure.time < promptly;
  std::printf("rank %d %s rank 1 after %.1f s: %s\n", rank, named ? "names" : "FAILED to name",
              failure.time.count(), failure.text.c_str());
  std::fflush(stdout);
  return 1;
}

/// Ranks on several hosts. A window is there for ranks of one host, and for no others.
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

int run_cut(int rank) {
  const auto comm = make_mpi_communicator(std::chrono::milliseconds(3000));
  std::vector<Bytes> blocks(static_cast<std::size_t>(comm->world_size()), Bytes(100'000));
  auto begin = std::chrono::steady_clock::now();
  const Failure failure = failure_of([&] {
    for (int round = 0;; ++round) {
      if (round == 10 && rank == 0) std::printf("cut it now\n"), std::fflush(stdout);
      begin = std::chrono::steady_clock::now();
      comm->all_gather(blocks[static_cast<std::size_t>(rank)], writable(blocks));
    }
  });
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  // Through mpirun its words may not come: it has lost the same link.
  std::ofstream(std::string(std::getenv("ZP_TEST_FOLDER")) + "/rank" + std::to_string(rank))
      << time.count() << " s: " << failure.text << "\n";
  return 5;
}

int run(const std::string& mode, int rank) {
  if (mode == "collectives") return run_collectives(rank);
  if (mode == "slow") return run_slow(rank);
  if (mode == "large") return run_large(rank);
  if (mode == "mismatch") return run_mismatch(rank);
  if (mode == "counts") return run_counts(rank);
  if (mode == "throws") return run_throws(rank);
  if (mode == "left") return run_left(rank);
  if (mode == "absent") return run_absent(rank);
  if (mode == "killed") return run_signal(rank, SIGKILL, false);
  if (mode == "stopped") return run_signal(rank, SIGSTOP, false);
  if (mode == "killed_busy") return run_signal(rank, SIGKILL, true);
  if (mode == "stopped_busy") return run_signal(rank, SIGSTOP, true);
  if (mode == "groups") return run_groups(rank);
  if (mode == "group_throws") return run_group_throws(rank);
  if (mode == "group_mismatch") return run_group_mismatch(rank);
  if (mode == "group_left") return run_group_left(rank);
  if (mode == "group_absent") return run_group_absent(rank);
  if (mode == "group_killed") return run_group_signal(rank, SIGKILL, false);
  if (mode == "group_stopped") return run_group_signal(rank, SIGSTOP, false);
  if (mode == "native_stopped") return run_group_signal(rank, SIGSTOP, true);
  if (mode == "hosts") return run_hosts(rank);
  if (mode == "cut") return run_cut(rank);
  std::fprintf(stderr, "mpi_comm_test: no mode %s\n", mode.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  MpiSession session(&argc, &argv);
  const std::string mode = argc > 1 ? argv[1] : "collectives";
  if (mode != "collectives" && mode != "groups" && session.world_size() < 2) {
    std::fprintf(stderr, "mpi_comm_test: mode %s needs 2 ranks or more\n", mode.c_str());
    return 2;
  }
  try {
    return run(mode, session.rank());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: FAILED with %s\n", session.rank(), error.what());
    return 1;
  }
}
