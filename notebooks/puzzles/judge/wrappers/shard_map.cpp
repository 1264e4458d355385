// shard_map as a C function: begin and end of the rank's slice of the bucket.

#include "wrapper.hpp"

extern "C" std::int32_t puzzle_call(std::int64_t padded_numel, std::int32_t world_size,
                                    std::int64_t bucket_numel, std::uint64_t bucket,
                                    std::int32_t rank, std::int64_t* range, char* message,
                                    std::size_t size) {
  using namespace zeroproof;
  const auto call = [&] {
    const FlatRange slice = mine::shard_map(padded_numel, world_size, bucket_numel, bucket, rank);
    range[0] = slice.begin;
    range[1] = slice.end;
  };
  return wrapper::outcome_of(call, message, size);
}
