#pragma once

#include <string>

#include "verification/cases/result.hpp"
#include "verification/comm/comm_case.hpp"

namespace zeroproof::verification {

/// Calls the collective of a case on its ranks with every element type and length, and compares all
/// bytes of their memory with the definition: received and sent blocks, and the gaps between them.
/// Collective over the processes of an MPI job, complete on rank 0. fault: identifier of a planted
/// fault of a communicator, or "".
Result judge_comm(const CommCaseSpec& spec, std::uint64_t seed, double timeout_s,
                  const std::string& fault);

}  // namespace zeroproof::verification
