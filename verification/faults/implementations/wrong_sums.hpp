#pragma once
// Wrong sums of the micro-batch gradients of a step, from public bugs.

#include "verification/faults/implementations/plain_reduce.hpp"

namespace zeroproof::verification {

/// May change the gradients. Returns [padded_numel].
using Sum = Values(Leaves& leaves, const OptimizerSetup& setup);

/// The canonical tree (R11).
Sum canonical_sum;

/// A later gradient overwrites the sum instead of being added.
Sum overwritten_sum;

/// The accumulator has 16 bits.
Sum bf16_sum;

/// On a single rank, the accumulator is added to itself.
Sum doubled_sum;

/// The gradient of a sum over ranks is computed as another sum over ranks.
Sum sum_times_world;

/// Every micro-batch is clipped to max_norm separately.
Sum sum_of_clipped;

/// Ranks use the buffer that the reduction was not written to.
Sum own_sum;

/// No reduction over instances: the gradients of the own instance only.
Sum sum_of_instance;

/// The result of the reduction over instances is reduced over instances once more.
Sum sum_over_instances_again;

/// In order of arrival: the first gradient of every rank, then the second of every rank.
Sum sum_as_they_arrive;

/// A gradient's leaf is its index on its rank: a tree on every rank, and the ranks' sums one after
/// another.
Sum sum_by_local_index;

/// Ranks without a micro-batch contribute zeros.
Sum sum_with_zeros;

/// Every CP rank sums its parts over micro-batches; then the sums are combined.
Sum sum_of_parts_last;

/// The memory of a rank's first node is reused for another one before the node was added.
Sum sum_of_reused_node;

/// A gradient that was not copied: it is read after the next one has overwritten it.
Sum sum_of_stale_leaves;

/// All ranks keep their nodes in the same memory, which holds the last rank's.
Sum sum_of_shared_memory;

}  // namespace zeroproof::verification
