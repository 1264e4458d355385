#include "verification/cli/program/capabilities.hpp"

#include "common/base/fpenv.hpp"
#include "common/base/parallel_for.hpp"
#include "cuda/device/runtime/device.hpp"
#include "cuda/host/base/isa.hpp"
#include "verification/cli/program/plant.hpp"
#if defined(ZP_HAVE_MPI)
#include "common/comm/mpi/mpi_library.hpp"
#endif

namespace zeroproof::verification {
namespace {

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "g++ " __VERSION__;
#else
  return "unknown";
#endif
}

std::string instruction_sets() {
  std::string text;
  for (const Isa isa : cuda::host::supported_isas())
    text += std::string(cuda::host::name(isa)) + " ";
  return text + "(in use: " + std::string(cuda::host::name(cuda::host::best_isa())) + ")";
}

std::string mpi_detail() {
#if defined(ZP_HAVE_MPI)
  return mpi_library() + ", ranks as processes through " ZP_MPIEXEC;
#else
  return "not in this build: multi-process checks are off";
#endif
}

}  // namespace

bool mpi_built() {
#if defined(ZP_HAVE_MPI)
  return true;
#else
  return false;
#endif
}

bool device_answers() { return cuda::device::device_info().answers; }

std::vector<Capability> capabilities() {
  const cuda::device::DeviceInfo& device = cuda::device::device_info();
  const std::string problem = fp_environment_problem();
  return {
      {"compiler", true, compiler()},
      {"fp environment", problem.empty(),
       problem.empty() ? "nearest even, subnormals kept" : problem},
      {"instruction sets", true, instruction_sets()},
      {"threads", true, std::to_string(available_cores()) + " cores"},
      {"mpi", mpi_built(), mpi_detail()},
      {"cuda build", device.built,
       device.built ? "device implementations are compiled in"
                    : "not in this build: device implementations are off"},
      {"cuda device", device.answers, device.detail},
      {"planted faults", faults_built(),
       faults_built() ? "this program can run planted faults"
                      : "not in this program; build/zeroproof-faults has them"},
  };
}

}  // namespace zeroproof::verification
