#pragma once
// Sums of the leaves of a step as they were wrong in public.

#include "verification/faults/implementations/plain_reduce.hpp"

namespace zeroproof::verification {

/// May change the leaves. Returns [padded_numel].
using Sum = Values(Leaves& leaves, const OptimizerSetup& setup);

/// The canonical tree (R11).
Sum canonical_sum;

/// A later leaf is stored where it had to be added.
Sum overwritten_sum;

/// The accumulator has 16 bits.
Sum bf16_sum;

/// With nobody to reduce with, the accumulator is added to itself.
Sum doubled_sum;

/// The gradient of a sum over ranks is taken for another sum over ranks.
Sum sum_times_world;

/// Every micro-batch to max_norm, by itself.
Sum sum_of_clipped;

/// Ranks go on with the buffer that the reduction was not written to.
Sum own_sum;

/// The instances are not reduced over: the leaves of one's own alone.
Sum sum_of_instance;

/// What every instance has after the reduction is reduced over instances once more.
Sum sum_over_instances_again;

/// As they arrive: the first leaf of every rank, then the second of every rank.
Sum sum_as_they_arrive;

/// A leaf's place is its number on its rank: a tree on every rank, and the ranks' sums one after another.
Sum sum_by_local_index;

/// Ranks without a micro-batch take part with zeros.
Sum sum_with_zeros;

/// Every CP rank sums its parts over micro-batches; then they are combined.
Sum sum_of_parts_last;

/// The memory of a rank's first node is used for another one before the node was added.
Sum sum_of_reused_node;

/// A leaf that was not copied: it is read when the next one has been written over it.
Sum sum_of_stale_leaves;

/// All ranks keep their nodes in the same memory: the last one's is in it.
Sum sum_of_shared_memory;

}  // namespace zeroproof::verification
