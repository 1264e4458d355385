#include "verification/training/ranks/mpi_environment.hpp"

#include <algorithm>
#include <cstdlib>

#include "verification/training/ranks/mpi_launch.hpp"

namespace zeroproof::verification {

int number_in_environment(std::initializer_list<const char*> names) {
  for (const char* variable : names) {
    const char* text = std::getenv(variable);
    if (text != nullptr && *text != '\0') return std::atoi(text);
  }
  return -1;
}

bool inside_mpi_job() { return mpi_job_size() > 0; }

bool started_by_zeroproof() { return std::getenv(mpi_child_mark) != nullptr; }

/// srun with PMIx sets a rank by that name, and the size as Slurm's own variable. Slurm's variables
/// alone are no proof: a batch script, which is no MPI process, has them too.
int mpi_job_size() {
  const int size = number_in_environment({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  if (size >= 0) return size;
  if (number_in_environment({"PMIX_RANK"}) < 0) return 0;
  return std::max(0, number_in_environment({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}));
}

int mpi_job_rank() {
  return std::max(0, number_in_environment({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}));
}

}  // namespace zeroproof::verification
