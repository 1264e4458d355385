#pragma once
// Cases whose ranks are processes: started through mpirun, or run inside a job that already exists.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "verification/cases/run_plan.hpp"
#include "verification/training/gradients/grad_store.hpp"
#include "verification/training/ranks/world.hpp"

namespace zeroproof::verification {

/// Text by workload.
using Texts = std::map<std::string, workload::Text>;

/// Makes the worlds of MPI cases inside a job. Errors: unavailable without MPI; config if a case's world has
/// another size than the job.
std::function<std::unique_ptr<World>(const CaseSpec&)> make_mpi_world_factory(
    const VerifyOptions& options);

/// Told of a job while it runs.
struct JobListener {
  std::function<void()> waiting;  ///< again and again
  std::function<void(std::vector<Result>&)>
      finished;  ///< results as they come, which may be added to
};

/// Starts one job per world, on this machine or on the hosts of a host file (options.hostfile, else
/// ZP_HOSTFILE; ZP_MPIRUN_ARGS holds more words for mpirun), and returns the results of all cases. A job that fails
/// gives crashed, hung or error results that name the rank where it can be known, and keeps what was finished; one
/// whose ranks do not come to life, or in which nothing moves, is ended; the first of its cases has the last
/// collectives. Without MPI the cases are skipped. leaves: computed here for all the cases, which the ranks then read
/// instead of computing them; null for none.
/// The jobs train on these texts, handed over in files, so that they see the bytes this process saw.
/// Errors: io if the host file cannot be read; config if srun started several copies of this program without MPI.
std::vector<Result> run_mpi_jobs(const VerifyOptions& options, const std::vector<CaseSpec>& cases,
                                 const Texts& texts, GradStore* leaves,
                                 const JobListener& listener);

/// True if the ranks of the jobs will be processes of this machine, as far as can be told before they are started.
bool mpi_jobs_run_here(const VerifyOptions& options);

/// Inside a job that zeroproof started: the leaves it handed over, null if it did not, or they cannot be reached from
/// here; then they are computed once more. Errors (io): as GradFile, for a file that is there and is not the right one.
std::unique_ptr<GradFile> leaves_handed_over();

}  // namespace zeroproof::verification
