#include "verification/training/gradients/grad_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common/base/error.hpp"

namespace zeroproof::verification {
namespace {

static_assert(std::is_trivially_copyable_v<GradFileHeader> &&
                  std::is_trivially_copyable_v<GradRecord>,
              "they are written in memory order");

[[noreturn]] void refuse(const std::string& problem) {
  fail(ErrorCode::io, problem, "gradients of another run would be compared",
       "run the command again; it creates a new file");
}

}  // namespace

GradFile::GradFile(const std::string& path, const Digest& run) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info {};
  const bool there = file >= 0 && ::fstat(file, &info) == 0;
  num_bytes_ = there ? static_cast<std::size_t>(info.st_size) : 0;
  void* mapped = MAP_FAILED;
  if (num_bytes_ >= leaf_page) mapped = ::mmap(nullptr, num_bytes_, PROT_READ, MAP_SHARED, file, 0);
  if (file >= 0) ::close(file);
  if (mapped == MAP_FAILED) refuse("gradient file " + path + " cannot be read");
  bytes_ = static_cast<const std::byte*>(mapped);
  try {
    read_records(path, run);
  } catch (...) {
    ::munmap(mapped, num_bytes_);
    throw;
  }
}

GradFile::~GradFile() { ::munmap(const_cast<std::byte*>(bytes_), num_bytes_); }

void GradFile::read_records(const std::string& path, const Digest& run) {
  GradFileHeader header;
  std::memcpy(&header, bytes_, sizeof(header));
  if (std::memcmp(header.magic, leaf_file_magic, sizeof(header.magic)) != 0)
    refuse(path + " is not a complete gradient file");
  if (header.run != run) refuse("gradient file " + path + " belongs to another run");
  const std::uint64_t rest = num_bytes_ - std::min<std::uint64_t>(header.records_begin, num_bytes_);
  if (header.count > rest / sizeof(GradRecord)) refuse("gradient file " + path + " is truncated");
  const std::byte* records = bytes_ + header.records_begin;
  if (raw_digest(records, static_cast<std::int64_t>(header.count * sizeof(GradRecord))) !=
      header.records)
    refuse("the list of gradients in " + path + " is damaged");
  for (std::uint64_t i = 0; i < header.count; ++i) {
    GradRecord record;
    std::memcpy(&record, records + i * sizeof(record), sizeof(record));
    const bool inside =
        record.dtype <= static_cast<std::uint64_t>(DType::e5m2) &&
        record.offset <= header.records_begin &&
        record.numel <= (header.records_begin - record.offset) /
                            static_cast<std::uint64_t>(num_bytes(static_cast<DType>(record.dtype)));
    if (!inside) refuse("a gradient of " + path + " is outside the file");
    records_.emplace(record.key, record);
  }
}

std::optional<StoredGrad> GradFile::find(const GradKey& key) const {
  const auto found = records_.find(key);
  if (found == records_.end()) return std::nullopt;
  const GradRecord& record = found->second;
  const TensorView values{const_cast<std::byte*>(bytes_) + record.offset,
                          static_cast<DType>(record.dtype),
                          static_cast<std::int64_t>(record.numel)};
  if (raw_digest(values.data, values.num_bytes()) != record.digest) {
    refuse("the gradient of step " + std::to_string(key.step) + ", micro-batch " +
           std::to_string(key.micro_batch) + " in the gradient file is damaged");
  }
  return StoredGrad{values, record.loss, record.digest};
}

}  // namespace zeroproof::verification
