#pragma once
// Cases whose ranks are processes: started through mpirun, or run inside a job that already exists.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "verification/case/run_plan.hpp"
#include "verification/world/world.hpp"

namespace zeroproof::verification {

/// Text by workload.
using Texts = std::map<std::string, workload::Text>;

/// Makes the worlds of MPI cases inside a job. Errors: unavailable without MPI; config if a case's world has
/// another size than the job.
std::function<std::unique_ptr<World>(const CaseSpec&)> make_mpi_world_factory(const VerifyOptions& options);

/// Starts one job per world size, on this machine or on the hosts of a host file (options.hostfile, else
/// ZP_HOSTFILE; ZP_MPIRUN_ARGS holds more words for mpirun), and returns the results of all cases. A job that fails
/// gives crashed, hung or error results that name the rank where it can be known; without MPI the cases are skipped.
/// waiting: called again and again while a job runs.
/// The jobs train on these texts, handed over in files, so that they see the bytes this process saw.
/// Errors: io if the host file cannot be read; config if srun started several copies of this program without MPI.
std::vector<Result> run_mpi_jobs(const VerifyOptions& options, const std::vector<CaseSpec>& cases,
                                 const Texts& texts, const std::function<void()>& waiting);

}  // namespace zeroproof::verification
