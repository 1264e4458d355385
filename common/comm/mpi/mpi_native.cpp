#include "common/comm/mpi/mpi_native.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <numeric>
#include <utility>

#include "common/comm/collective_call.hpp"
#include "common/comm/local_host.hpp"
#include "common/comm/mpi/mpi_handles.hpp"
#include "common/comm/mpi_session.hpp"

namespace zeroproof {

namespace {

constexpr int exit_code_timeout = 5;

/// Maximum number of pieces of max_message_bytes in one MPI call: a long call cannot be cancelled.
constexpr std::int64_t messages_per_call = 64;

}  // namespace

BlockingCall::BlockingCall(const BlockingLimit& limit)
    : limit_(limit), watch_([this] { watch(); }), mpi_(mpi_mutex()) {}

BlockingCall::~BlockingCall() {
  mpi_.unlock();
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_one();
  watch_.join();
}

void BlockingCall::watch() {
  std::unique_lock lock(mutex_);
  if (ended_.wait_for(lock, limit_.limit, [&] { return over_; })) return;
  std::fprintf(stderr,
               "zeroproof: %s did not end within %s on %s (another rank is stuck inside MPI, and "
               "the call cannot be cancelled); check the reports of the other ranks, or raise the "
               "time limit\n",
               limit_.what.c_str(), describe(limit_.limit).c_str(), local_host().c_str());
  ::_exit(exit_code_timeout);
}

MpiNative::MpiNative(std::vector<int> in_world, int tag)
    : in_world_(std::move(in_world)), tag_(tag) {}

MpiNative::~MpiNative() = default;

MpiNative::Handles& MpiNative::handles(const BlockingLimit& limit) {
  if (handles_) return *handles_;
  const BlockingCall blocking(limit);
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  check_mpi(MPI_Group_incl(world, static_cast<int>(in_world_.size()), in_world_.data(), &group),
            "MPI_Group_incl");
  check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, group, tag_, &comm), "MPI_Comm_create_group");
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  handles_ = std::make_unique<Handles>();
  handles_->all = comm;
  return *handles_;
}

bool MpiNative::all_share_memory(const BlockingLimit& limit) {
  Handles& mine = handles(limit);
  const BlockingCall blocking(limit);
  if (mine.node == MPI_COMM_NULL) {
    check_mpi(MPI_Comm_split_type(mine.all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &mine.node),
              "MPI_Comm_split_type");
    check_mpi(MPI_Comm_set_errhandler(mine.node, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  int neighbours = 0;
  check_mpi(MPI_Comm_size(mine.node, &neighbours), "MPI_Comm_size");
  return static_cast<std::size_t>(neighbours) == in_world_.size();
}

/// MPI counts are int, and the library sums the counts of all parts in one. So a call takes a piece
/// of every part, gathered into one block; unless all fits into one call.
void MpiNative::reduce_scatter(Span<const float> send, Span<const std::int64_t> counts,
                               Span<float> recv, std::int64_t max_message_bytes,
                               const BlockingLimit& limit) {
  Handles& mine = handles(limit);
  const std::int64_t most = std::min<std::int64_t>(messages_per_call * max_message_bytes / 4,
                                                   std::numeric_limits<int>::max());
  const std::int64_t ranks = static_cast<std::int64_t>(counts.size());
  const std::int64_t longest = *std::max_element(counts.begin(), counts.end());
  const std::int64_t piece = numel(send) <= most ? std::max<std::int64_t>(longest, 1)
                                                 : std::max<std::int64_t>(most / ranks, 1);
  std::vector<int> piece_counts(counts.size());
  std::vector<float> gathered;
  std::size_t received = 0;
  for (std::int64_t done = 0; done == 0 || done < longest; done += piece) {
    gathered.clear();
    std::int64_t begin = done;
    for (std::size_t part = 0; part < counts.size(); ++part) {
      const std::int64_t count = std::clamp<std::int64_t>(counts[part] - done, 0, piece);
      piece_counts[part] = static_cast<int>(count);
      if (piece < longest && count > 0)
        gathered.insert(gathered.end(), &send[begin], &send[begin] + count);
      begin += counts[part];
    }
    const BlockingCall blocking(limit);
    check_mpi(
        MPI_Reduce_scatter(piece < longest ? gathered.data() : send.data(), recv.data() + received,
                           piece_counts.data(), MPI_FLOAT, MPI_SUM, mine.all),
        "MPI_Reduce_scatter");
    int self = 0;
    MPI_Comm_rank(mine.all, &self);
    received += static_cast<std::size_t>(piece_counts[self]);
  }
}

void MpiNative::free() {
  if (!handles_) return;
  const std::lock_guard lock(mpi_mutex());
  if (handles_->node != MPI_COMM_NULL) MPI_Comm_free(&handles_->node);
  MPI_Comm_free(&handles_->all);
  handles_.reset();
}

}  // namespace zeroproof
