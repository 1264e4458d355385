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

/// Callbacks of a running job.
struct JobListener {
  std::function<void()> waiting;  ///< called repeatedly
  std::function<void(std::vector<Result>&)>
      finished;  ///< called with results as they come; may extend them
};

/// Starts one job per world, on this machine or on the hosts of a host file (options.hostfile, else
/// ZP_HOSTFILE; ZP_MPIRUN_ARGS has more words for mpirun), and returns the results of all cases. A
/// failed job has crashed, hung or error results that name the rank if known, and keeps finished
/// results. A job whose ranks do not start, or that makes no progress, is ended; its first case
/// gets the last collectives. Without MPI the cases are skipped. leaves: gradients computed here
/// for all cases, which the ranks read instead of computing them; null for none.
/// The jobs train on these texts, passed in files, so that they use the bytes read by this process.
/// Errors: io if the host file cannot be read; config if srun started several copies of this
/// program without MPI.
std::vector<Result> run_mpi_jobs(const VerifyOptions& options, const std::vector<CaseSpec>& cases,
                                 const Texts& texts, GradStore* leaves,
                                 const JobListener& listener);

/// True if the ranks of the jobs will be processes of this machine, as far as known before they
/// start.
bool mpi_jobs_run_here(const VerifyOptions& options);

/// Inside a job started by zeroproof: the gradients it passed, null if none or if the file is not
/// on this host; they are then computed again. Errors (io): as GradFile, for an existing but
/// unusable file.
std::unique_ptr<GradFile> leaves_handed_over();

}  // namespace zeroproof::verification
