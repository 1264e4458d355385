#include "common/io/checkpoint/chunk_cache.hpp"

#include <algorithm>

namespace zeroproof {

void ChunkCache::use(const void* file, std::int64_t chunk,
                     const std::function<void(std::vector<std::byte>&)>& load,
                     const std::function<void(Span<const std::byte>)>& use) {
  const std::lock_guard lock(mutex_);
  auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& one) {
    return one.file == file && one.chunk == chunk;
  });
  if (entry == entries_.end()) {
    if (entries_.size() < most) {
      entry = entries_.insert(entries_.end(), Entry{});
    } else {
      entry = std::min_element(entries_.begin(), entries_.end(),
                               [](const Entry& a, const Entry& b) { return a.used < b.used; });
    }
    entry->file = nullptr;  // until it is complete
    load(entry->bytes);
    entry->file = file;
    entry->chunk = chunk;
  }
  entry->used = ++uses_;
  use(entry->bytes);
}

}  // namespace zeroproof
