#include "common/comm/mpi_calls.hpp"

#include <cstddef>

#include "common/base/error.hpp"

namespace zeroproof {

void check_mpi(int code, const std::string& what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(ErrorCode::comm, what + " failed: " + std::string(text, static_cast<std::size_t>(length)),
       "the MPI library refused or lost it", "see whether the other ranks and the network are alive");
}

}  // namespace zeroproof
