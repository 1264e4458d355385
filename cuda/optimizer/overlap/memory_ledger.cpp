#include "cuda/optimizer/overlap/memory_ledger.hpp"

#include <string>

#include "common/base/error.hpp"

namespace zeroproof::cuda {

GuardedBuffer CountedBuffer::made(const MemoryLedger& ledger, MemoryClass kind, std::int64_t numel,
                                  DType dtype, BufferFill fill) {
  try {
    return GuardedBuffer(numel, dtype, fill, ledger.space().memory);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unavailable) throw;
    fail(
        ErrorCode::unavailable,
        "the device cannot allocate " + std::to_string(numel * num_bytes(dtype)) +
            " bytes for a buffer of class " + std::string(name(kind)),
        "this rank has " + std::to_string(ledger.use().total_now) + " bytes there; " + error.what(),
        "choose a higher stage, more ranks or a smaller model (see zeroproof plan)");
  }
}

}  // namespace zeroproof::cuda
