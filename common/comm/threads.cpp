#include "common/comm/threads.hpp"

#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "common/comm/thread_communicator.hpp"
#include "common/comm/thread_rendezvous.hpp"

namespace zeroproof {

ThreadWorld::ThreadWorld(int world_size, std::chrono::milliseconds timeout,
                         std::shared_ptr<FlightRecorders> recorders) {
  ZP_CHECK(world_size >= 1, ErrorCode::invalid_argument, "world_size is " + std::to_string(world_size),
           "it is a number of ranks", "use 1 or more");
  meeting_ = std::make_shared<ThreadRendezvous>(world_size, timeout, std::move(recorders));
}

int ThreadWorld::world_size() const { return meeting_->world_size(); }

std::unique_ptr<Communicator> ThreadWorld::communicator(int rank) {
  ZP_CHECK(rank >= 0 && rank < world_size(), ErrorCode::invalid_argument, "rank is " + std::to_string(rank),
           "the world has " + std::to_string(world_size()) + " ranks", "use 0 <= rank < world_size");
  return std::make_unique<ThreadCommunicator>(meeting_, rank);
}

void run_ranks(ThreadWorld& world, const std::function<void(Communicator&)>& work) {
  ThreadRendezvous& meeting = *world.meeting_;
  std::mutex mutex;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(world.world_size()));
  int first = -1;
  const auto end = [&](int rank, const std::string& reason) {
    {
      // Noted before the abort, so that a failure which only follows from it cannot come first.
      const std::lock_guard lock(mutex);
      errors[static_cast<std::size_t>(rank)] = std::current_exception();
      if (first < 0) first = rank;
    }
    meeting.abort(rank, reason);
  };
  const auto run_rank = [&](int rank) {
    try {
      work(*world.communicator(rank));
      meeting.leave_all(rank);
    } catch (const std::exception& error) {
      end(rank, error.what());
    } catch (...) {
      end(rank, "an exception that is not a std::exception");
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world.world_size(); ++rank) {
    try {
      threads.emplace_back(run_rank, rank);
    } catch (const std::exception& error) {
      end(rank, std::string("its thread did not start: ") + error.what());
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  meeting.return_all();
  if (first < 0) return;
  const int culprit = meeting.culprit();
  const bool blamed = culprit >= 0 && errors[static_cast<std::size_t>(culprit)];
  std::rethrow_exception(errors[static_cast<std::size_t>(blamed ? culprit : first)]);
}

}  // namespace zeroproof
