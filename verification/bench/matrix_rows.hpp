#pragma once
// Matrix products (R27) and Newton-Schulz (R28) on the host, against the multiplications and additions alone.

#include "verification/bench/report.hpp"
#include "verification/bench/worker_team.hpp"

namespace zeroproof::verification::bench {

/// Matrices of `side` rows, and odd ones a little smaller. A limit has the multiplications that its row needs: of a
/// symmetric product those of one half. With factors bf16 a row may exceed its limit: some processors have an instruction
/// with two terms.
void measure_matrices(const Options& options, std::int64_t side, WorkerTeam& team, Report& report);

}  // namespace zeroproof::verification::bench
