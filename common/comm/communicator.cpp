#include "common/comm/communicator.hpp"

#include "common/base/error.hpp"

namespace zeroproof {

std::unique_ptr<Communicator> Communicator::split(int) {
  fail(ErrorCode::unavailable, name() + " cannot be split", "a process grid needs groups of ranks",
       "use self, threads or mpi");
}

std::unique_ptr<SharedWindow> Communicator::shared_window(std::int64_t) { return nullptr; }

void Communicator::native_reduce_scatter(Span<const float>, Span<const std::int64_t>, Span<float>) {
  fail(ErrorCode::unavailable, name() + " has no sum of floats of its own",
       "native mode measures the sum of a communication library",
       "use self, threads or mpi, or another gradient sum");
}

void Communicator::exchange_places(const CollectiveCall&, Span<const Span<const std::byte>>,
                                   const TakePlace&) {
  fail(ErrorCode::unavailable, name() + " cannot exchange addresses",
       "addresses mean nothing in another process", "use self or threads");
}

std::chrono::milliseconds Communicator::time_limit() const { return default_comm_timeout; }

std::string Communicator::host_of(int) const { return {}; }

}  // namespace zeroproof
