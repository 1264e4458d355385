#include "common/comm/threads.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "common/comm/threads/thread_communicator.hpp"
#include "common/comm/threads/thread_rendezvous.hpp"

namespace zeroproof {

ThreadWorld::ThreadWorld(int world_size, std::chrono::milliseconds timeout,
                         std::shared_ptr<FlightRecorders> recorders) {
  ZP_CHECK(world_size >= 1, ErrorCode::invalid_argument,
           "world_size is " + std::to_string(world_size), "it is a number of ranks",
           "use 1 or more");
  meeting_ = std::make_shared<ThreadRendezvous>(world_size, timeout, std::move(recorders));
}

int ThreadWorld::world_size() const { return meeting_->world_size(); }

std::unique_ptr<Communicator> ThreadWorld::communicator(int rank) {
  ZP_CHECK(rank >= 0 && rank < world_size(), ErrorCode::invalid_argument,
           "rank is " + std::to_string(rank),
           "the world has " + std::to_string(world_size()) + " ranks",
           "use 0 <= rank < world_size");
  return std::make_unique<ThreadCommunicator>(meeting_, rank);
}

void run_ranks(ThreadWorld& world, const std::function<void(Communicator&)>& work) {
  ThreadRendezvous& meeting = *world.meeting_;
  std::mutex mutex;
  std::vector<std::exception_ptr> errors(world.world_size());
  std::vector<int> ended;  // in the order of ranks, original failures first
  std::ptrdiff_t num_own = 0;
  const auto end = [&](int rank, const std::string& reason, ErrorOrigin origin) {
    {
      // Stored before the abort, so that a failure which only follows from it cannot come first.
      const std::lock_guard lock(mutex);
      errors[rank] = std::current_exception();
      const bool own = origin == ErrorOrigin::own;
      ended.insert(own ? ended.begin() + num_own++ : ended.end(), rank);
    }
    meeting.abort(rank, reason);
  };
  const auto run_rank = [&](int rank) {
    try {
      work(*world.communicator(rank));
      meeting.leave_all(rank);
    } catch (const Error& error) {
      end(rank, error.what(), error.origin());
    } catch (const std::exception& error) {
      end(rank, error.what(), ErrorOrigin::own);
    } catch (...) {
      end(rank, "an exception that is not a std::exception", ErrorOrigin::own);
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world.world_size(); ++rank) {
    try {
      threads.emplace_back(run_rank, rank);
    } catch (const std::exception& error) {
      end(rank, std::string("its thread did not start: ") + error.what(), ErrorOrigin::own);
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  meeting.return_all();
  if (ended.empty()) return;
  // The first rank whose abort failed the world, unless it only received another's failure: ranks
  // also meet outside of this world, and a rank that received a failure there may end before the
  // rank that sent it.
  const auto own_end = ended.begin() + num_own;
  const auto culprit = std::find(ended.begin(), own_end, meeting.culprit());
  std::rethrow_exception(errors[culprit == own_end ? ended.front() : *culprit]);
}

}  // namespace zeroproof
