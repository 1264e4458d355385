#pragma once
// One function for each subcommand: measures, and adds rows, figures and checks to the report.

#include "verification/bench/report.hpp"

namespace zeroproof::verification::bench {

/// Operations on the host and the whole step that consists of them, against the memory rates of the
/// same run.
void measure_kernels(const Options& options, Report& report);

/// Whole steps through the public interface, against the operations they consist of. Cases run one
/// after another, so that only one optimizer is in memory. After the rounds the bits are compared
/// with the contract's, and one step with an infinite gradient must be skipped.
void measure_product(const Options& options, Report& report);

/// Whole steps of a small transformer with the rule muon, with factors bf16 and fp32, and the rows of matrices. The bits
/// of two steps are compared with the reference's. options.save: inputs and results of these two. Then the distance of
/// results from exact arithmetic. options.numel: instead, that many results of newton_schulz for each choice of R28.
void measure_muon(const Options& options, Report& report);

/// Whether the product's step grows in a straight line with parameters, tensors, micro-batches, buckets and ranks.
void measure_sweep(const Options& options, Report& report);

/// Checkpoints, written to a separate folder in options.folder and removed: the time until one is
/// durable, against a file of equal size, and the cost of an asynchronous one to concurrent steps.
/// Errors: io.
void measure_checkpoint(const Options& options, Report& report);

/// Steps with state in memory of the host and in a file without a name in options.folder, against the slower of the
/// step that offloads nothing and the bytes moved alone. Errors: io.
void measure_offload(const Options& options, Report& report);

/// Kernels and steps on a device, against its memory. A group that needs more device memory is
/// reported as skipped. Errors: unavailable without a device.
void measure_device(const Options& options, Report& report);

/// The sharded step of ranks that share this machine, against the MPI library's collectives: inside
/// an MPI job this rank's part of it, otherwise a job for each number of ranks and setting of
/// malloc, whose output is printed. Returns the largest exit code. Errors: unavailable without MPI,
/// or if mpirun cannot be started.
int measure_ranks(const Options& options);

}  // namespace zeroproof::verification::bench
