#include "verification/training/gradients/grad_store.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <vector>

namespace zeroproof::verification {
namespace {

Digest drawn_at_random() {
  std::random_device device;
  const auto word = [&] { return std::uint64_t{device()} << 32 | device(); };
  return {word(), word()};
}

std::uint64_t whole_pages(std::uint64_t num_bytes) {
  return (num_bytes + leaf_page - 1) / leaf_page * leaf_page;
}

}  // namespace

GradStore::GradStore(std::uint64_t most_bytes)
    : run_(drawn_at_random()), most_bytes_(most_bytes / leaf_page * leaf_page) {
  if (most_bytes_ <= leaf_page) return;
  file_ = ::memfd_create("zeroproof-leaves", MFD_CLOEXEC);
  if (file_ < 0) return;
  void* mapped = ::mmap(nullptr, most_bytes_, PROT_READ, MAP_SHARED, file_, 0);
  if (mapped != MAP_FAILED) bytes_ = static_cast<const std::byte*>(mapped);
}

GradStore::~GradStore() {
  if (bytes_ != nullptr) ::munmap(const_cast<std::byte*>(bytes_), most_bytes_);
  if (file_ >= 0) ::close(file_);
}

bool GradStore::write(const void* data, std::size_t num_bytes, std::uint64_t offset) {
  const auto* from = static_cast<const std::byte*>(data);
  while (num_bytes > 0) {
    const ssize_t written = ::pwrite(file_, from, num_bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    from += written;
    num_bytes -= static_cast<std::size_t>(written);
    offset += static_cast<std::uint64_t>(written);
  }
  return true;
}

std::optional<StoredGrad> GradStore::find(const GradKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(key);
  if (found == records_.end()) return std::nullopt;
  const GradRecord& record = found->second;
  return StoredGrad{{const_cast<std::byte*>(bytes_) + record.offset,
                     static_cast<DType>(record.dtype), static_cast<std::int64_t>(record.numel)},
                    record.loss,
                    record.digest};
}

std::optional<StoredGrad> GradStore::keep(const GradKey& key, const StoredGrad& leaf) {
  const auto num_bytes = static_cast<std::uint64_t>(leaf.values.num_bytes());
  GradRecord record{key,
                    static_cast<std::uint64_t>(leaf.values.dtype),
                    static_cast<std::uint64_t>(leaf.values.numel),
                    0,
                    leaf.loss,
                    leaf.digest};
  {
    const std::lock_guard lock(mutex_);
    if (bytes_ == nullptr || num_bytes == 0 || end_ + num_bytes > most_bytes_) return std::nullopt;
    record.offset = end_;
    end_ += whole_pages(num_bytes);
  }
  if (!write(leaf.values.data, num_bytes, record.offset)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  records_.emplace(key, record);
  return StoredGrad{
      {const_cast<std::byte*>(bytes_) + record.offset, leaf.values.dtype, leaf.values.numel},
      leaf.loss,
      leaf.digest};
}

std::string GradStore::seal() {
  const std::lock_guard lock(mutex_);
  if (records_.empty()) return {};
  std::vector<GradRecord> records;
  for (const auto& [key, record] : records_) records.push_back(record);
  const std::size_t num_bytes = records.size() * sizeof(GradRecord);
  GradFileHeader header;
  std::copy(std::begin(leaf_file_magic), std::end(leaf_file_magic), header.magic);
  header.run = run_;
  header.count = records.size();
  header.records_begin = end_;
  header.records = raw_digest(records.data(), static_cast<std::int64_t>(num_bytes));
  end_ += whole_pages(num_bytes);  // later gradients begin on another page
  if (!write(records.data(), num_bytes, header.records_begin) || !write(&header, sizeof(header), 0))
    return {};
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_);
}

}  // namespace zeroproof::verification
