#include "verification/training/ranks/mpi_world.hpp"

#include <optional>

#include "common/base/error.hpp"

#if defined(ZP_HAVE_MPI)
#include "common/comm/mpi/mpi_library.hpp"
#include "common/comm/mpi_communicator.hpp"
#include "common/comm/mpi_session.hpp"
#include "verification/report/json_types.hpp"
#include "verification/training/ranks/mpi_environment.hpp"
#include "verification/training/ranks/rank_notes.hpp"
#endif

namespace zeroproof::verification {

#if defined(ZP_HAVE_MPI)

struct MpiLife::Session : MpiSession {
  using MpiSession::MpiSession;
};

MpiLife::MpiLife(int* argc, char*** argv) : session_(std::make_unique<Session>(argc, argv)) {}
MpiLife::~MpiLife() = default;
void MpiLife::set_exit_code(int code) { session_->set_exit_code(code); }

void MpiLife::require_all_ranks() const {
  ZP_CHECK(session_->world_size() == mpi_job_size(), ErrorCode::unavailable,
           "the launcher started " + std::to_string(mpi_job_size()) + " ranks, and " +
               mpi_library() + " connected " + std::to_string(session_->world_size()),
           "mpirun and library are of different MPIs",
           "start the ranks with the mpirun of that library");
}

namespace {

class MpiWorld final : public World {
 public:
  explicit MpiWorld(std::chrono::milliseconds timeout)
      : reference_(make_mpi_communicator(timeout)),
        candidate_(make_mpi_communicator(timeout)),
        harness_(make_mpi_communicator(timeout)) {}

  int size() const override { return harness_->world_size(); }

  void run(const RankWork& work) override {
    try {
      if (lost_rank()) throw Error(*lost_rank());
      work(harness_->rank(), {reference_.get(), candidate_.get(), harness_.get()});
    } catch (const std::exception& error) {
      keep_if_lost(error);
      for (Communicator* comm : {reference_.get(), candidate_.get(), harness_.get()})
        comm->abort(error.what());
      throw;
    }
  }

  std::vector<RankReport> collect(std::vector<RankReport> local) override {
    try {
      if (lost_rank()) throw Error(*lost_rank());
      return collected(std::move(local));
    } catch (const std::exception& error) {
      keep_if_lost(error);
      throw;
    }
  }

  void set_place(int, const std::string& what) override { RankNotes::place(what); }

 private:
  /// A rank lost in one case is lost for all cases of the job: otherwise each would wait for the
  /// whole time limit.
  static std::optional<Error>& lost_rank() {
    static std::optional<Error> error;
    return error;
  }

  static void keep_if_lost(const std::exception& error) {
    const auto* ours = dynamic_cast<const Error*>(&error);
    if (ours == nullptr || lost_rank()) return;
    if (ours->code() == ErrorCode::timeout || mpi_end_requested()) lost_rank() = *ours;
  }

  std::vector<RankReport> collected(std::vector<RankReport> local) {
    const auto rank = static_cast<std::size_t>(harness_->rank());
    const auto size = static_cast<std::size_t>(harness_->world_size());
    const std::string mine = to_json_value(local[rank]).dump();
    std::vector<std::uint64_t> lengths(size, 0);
    lengths[rank] = mine.size();
    harness_->all_reduce(lengths, IntegerReduce::max);
    std::vector<std::string> texts(size);
    std::vector<Span<std::byte>> receive;
    for (std::size_t r = 0; r < size; ++r) {
      texts[r].resize(lengths[r]);
      receive.push_back(std::as_writable_bytes(Span<char>(texts[r])));
    }
    harness_->all_gather(std::as_bytes(Span<const char>(mine)), receive);
    for (std::size_t r = 0; r < size; ++r) local[r] = rank_report_from(Json::parse(texts[r]));
    return local;
  }

  std::unique_ptr<Communicator> reference_, candidate_, harness_;
};

}  // namespace

std::unique_ptr<World> make_mpi_world(double timeout_s) {
  return std::make_unique<MpiWorld>(
      std::chrono::milliseconds(static_cast<std::int64_t>(timeout_s * 1000)));
}

#else

struct MpiLife::Session {};
MpiLife::MpiLife(int*, char***) {}
MpiLife::~MpiLife() = default;
void MpiLife::set_exit_code(int) {}
void MpiLife::require_all_ranks() const {}

std::unique_ptr<World> make_mpi_world(double) {
  fail(ErrorCode::unavailable, "this build has no MPI", "the case's ranks are processes",
       "install libopenmpi-dev and openmpi-bin and build again");
}

#endif

}  // namespace zeroproof::verification
