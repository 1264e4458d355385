#include "common/comm/mpi/mpi_library.hpp"

#include <array>
#include <sstream>

#include "common/comm/mpi/mpi_calls.hpp"

namespace zeroproof {

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "MPI";
  // "Open MPI v4.1.4, package: ...", "MPICH Version:\t4.0.2\nMPICH Release date:\t...": the name and the number.
  const std::string whole(text.data(), static_cast<std::size_t>(length));
  std::istringstream words(whole.substr(0, whole.find_first_of(",\n")));
  std::string name;
  for (std::string word; words >> word;) {
    if (word != "Version:") name += (name.empty() ? "" : " ") + word;
  }
  return name;
}

}  // namespace zeroproof
