#include "common/comm/mpi/loaded/loaded_mpi.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "common/base/error.hpp"
#include "common/comm/mpi/loaded/mpi_launcher.hpp"

namespace zeroproof {

namespace {

struct Name {
  const char* file;
  bool is_mpich;
};

/// The library of the launcher first: another one would make a world of one rank in every process.
/// In a job its variables name the launcher.
std::array<Name, 3> names_in_order() {
  std::array<Name, 3> names = {{{"libmpi.so.40", false},
                                {"libmpi.so.12", true},
                                {"libmpich.so.12", true}}};  // MPICH's name in Debian
  const auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };
  const bool open_mpi = is_set("OMPI_COMM_WORLD_SIZE") || is_set("PMIX_RANK");
  if (!open_mpi && (is_set("PMI_SIZE") || mpi_launcher().kind != MpiLauncher::Kind::open_mpi))
    std::rotate(names.begin(), names.begin() + 1, names.end());
  return names;
}

}  // namespace

const LoadedMpi& LoadedMpi::of_process() {
  static const LoadedMpi mpi;
  return mpi;
}

/// RTLD_GLOBAL: the library loads modules that use its symbols. The folder of the launcher comes
/// first, where an MPI outside of the system's folders has its library.
LoadedMpi::LoadedMpi() {
  std::error_code missing;
  const auto launcher = std::filesystem::canonical(mpi_launcher().path, missing);
  for (const Name& name : names_in_order()) {
    for (const bool near : {true, false}) {
      if (near && missing) continue;
      const std::string file =
          near ? launcher.parent_path().parent_path() / "lib" / name.file : name.file;
      library_ = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
      if (library_ == nullptr) continue;
      is_mpich_ = name.is_mpich;
      return;
    }
  }
  fail(ErrorCode::unavailable,
       "no MPI library was found (libmpi.so.40 of Open MPI, libmpi.so.12 or libmpich.so.12 of "
       "MPICH)",
       "", "install openmpi-bin or mpich, or add the folder of its library to LD_LIBRARY_PATH");
}

void* LoadedMpi::symbol(const char* name) const {
  void* const found = ::dlsym(library_, name);
  ZP_CHECK(found != nullptr, ErrorCode::unavailable, std::string("the MPI library has no ") + name,
           "", "install Open MPI 4 or 5, or MPICH 3.4 or later");
  return found;
}

}  // namespace zeroproof
