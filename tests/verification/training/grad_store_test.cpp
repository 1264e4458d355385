// Micro-batch gradients that one process stores and others read: equal bits, and never another
// file's.

#include <doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <numeric>

#include "common/base/error.hpp"
#include "tests/verification/training/training_support.hpp"
#include "verification/compare/judge/dense_baseline.hpp"
#include "verification/training/available_memory.hpp"
#include "verification/training/gradients/grad_store.hpp"

namespace grad_store_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

constexpr std::uint64_t plenty = std::uint64_t{1} << 24;

GradKey key_of(std::int64_t step, std::int64_t micro_batch) {
  return {{1, 2}, step, micro_batch, {3, 4}, 12};
}

std::vector<float> values_of(int seed) {
  std::vector<float> values(3000);
  std::iota(values.begin(), values.end(), static_cast<float>(seed));
  return values;
}

StoredGrad leaf_of(std::vector<float>& values) {
  const TensorView view{values.data(), DType::fp32, static_cast<std::int64_t>(values.size())};
  return {view, static_cast<double>(values[0]), raw_digest(view.data, view.num_bytes())};
}

/// Two micro-batch gradients, steps 1 and 2 of micro-batch 0.
void fill(GradStore& store) {
  for (const int step : {1, 2}) {
    std::vector<float> values = values_of(step);
    REQUIRE(store.keep(key_of(step, 0), leaf_of(values)));
  }
}

bool is_leaf(const std::optional<StoredGrad>& leaf, int seed) {
  std::vector<float> want = values_of(seed);
  return leaf && leaf->values.numel == 3000 && leaf->values.dtype == DType::fp32 &&
         leaf->loss == seed && leaf->digest == leaf_of(want).digest &&
         std::memcmp(leaf->values.data, want.data(), want.size() * sizeof(float)) == 0;
}

void flip_byte(const std::string& path, std::int64_t offset) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(file >= 0);
  char byte = 0;
  REQUIRE(::pread(file, &byte, 1, offset) == 1);
  byte = static_cast<char>(byte ^ 1);
  REQUIRE(::pwrite(file, &byte, 1, offset) == 1);
  ::close(file);
}

/// The error of a file, or of one of its gradients.
std::string refusal(const std::string& path, const Digest& run) {
  try {
    const GradFile file(path, run);
    static_cast<void>(file.find(key_of(1, 0)));
    static_cast<void>(file.find(key_of(2, 0)));
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::io);
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("GradStore: a file contains the stored gradients, and no other key") {
  GradStore store(plenty);
  CHECK(store.seal().empty());
  fill(store);
  CHECK(is_leaf(store.find(key_of(2, 0)), 2));
  const GradFile file(store.seal(), store.run());
  CHECK(is_leaf(file.find(key_of(1, 0)), 1));
  CHECK(is_leaf(file.find(key_of(2, 0)), 2));
  GradKey others[] = {key_of(3, 0), key_of(1, 1), key_of(1, 0), key_of(1, 0), key_of(1, 0)};
  others[2].training.low ^= 1;
  others[3].params.high ^= 1;
  others[4].log2_loss_scale = 11;
  for (const GradKey& other : others) {
    CHECK(!file.find(other));
    CHECK(!store.find(other));
  }
}

TEST_CASE("GradStore: a sealed store can be extended and sealed again") {
  GradStore store(plenty);
  fill(store);
  const GradFile before(store.seal(), store.run());
  std::vector<float> values = values_of(3);
  REQUIRE(store.keep(key_of(3, 0), leaf_of(values)));
  const GradFile after(store.seal(), store.run());
  CHECK(!before.find(key_of(3, 0)));
  for (const int step : {1, 2, 3}) CHECK(is_leaf(after.find(key_of(step, 0)), step));
}

TEST_CASE("GradStore: gradients beyond the limit are not stored") {
  GradStore none(0);
  std::vector<float> values = values_of(1);
  CHECK(!none.keep(key_of(1, 0), leaf_of(values)));
  CHECK(none.seal().empty());
  GradStore one(5 * leaf_page);  // the header, and three pages for a gradient
  CHECK(one.keep(key_of(1, 0), leaf_of(values)));
  CHECK(!one.keep(key_of(2, 0), leaf_of(values)));
  const GradFile file(one.seal(), one.run());
  CHECK(is_leaf(file.find(key_of(1, 0)), 1));
  CHECK(!one.keep(key_of(2, 0), leaf_of(values)));
}

TEST_CASE("GradStore: damaged, truncated, unfinished or foreign files are refused") {
  GradStore store(plenty);
  fill(store);
  const std::string path = store.seal();
  CHECK(refusal(path, store.run()) == "");
  CHECK(contains(refusal(path, GradStore(0).run()), "belongs to another run"));
  CHECK(contains(refusal("/nonexistent/leaves", store.run()), "cannot be read"));

  constexpr std::int64_t first_leaf = leaf_page, second_leaf = 4 * leaf_page,
                         records = 7 * leaf_page;
  for (const auto& [offset, said] : {std::pair{first_leaf + 5, "step 1, micro-batch 0"},
                                     std::pair{second_leaf + 11'999, "step 2, micro-batch 0"},
                                     std::pair{records + 3, "list of gradients"},
                                     std::pair{std::int64_t{0}, "not a complete gradient file"}}) {
    flip_byte(path, offset);
    const std::int64_t flipped = offset;
    CAPTURE(flipped);
    CHECK(contains(refusal(path, store.run()), said));
    flip_byte(path, offset);
  }
  CHECK(refusal(path, store.run()) == "");
  REQUIRE(::truncate(path.c_str(), records + 8) == 0);
  CHECK(contains(refusal(path, store.run()), "truncated"));
  REQUIRE(::truncate(path.c_str(), 100) == 0);
  CHECK(contains(refusal(path, store.run()), "cannot be read"));
}

TEST_CASE("GradStore: another process reads gradients from the file, and computes missing ones") {
  TinyTraining run(DType::bf16);
  GradStore store(plenty);
  const DenseBaseline baseline(run.experiment, run.leaves);
  const TensorView params = baseline.optimizer().param();
  const Digest digest = run.leaves.parameters_digest(params);
  GradCache first(run.experiment, {&store, nullptr});
  const GradCache::Grad& made = first.micro_batch_grad(1, 0, params, digest, 0);
  CHECK(made.values.data() == nullptr);  // it is in the store
  const GradFile file(store.seal(), store.run());
  GradCache second(run.experiment, {nullptr, &file});
  for (const std::int64_t micro_batch : {0, 1}) {
    const GradCache::Grad& own = run.leaves.micro_batch_grad(1, micro_batch, params, digest, 0);
    const GradCache::Grad& theirs = second.micro_batch_grad(1, micro_batch, params, digest, 0);
    CHECK((theirs.values.data() == nullptr) == (micro_batch == 0));
    CHECK(theirs.digest == own.digest);
    CHECK(theirs.loss == own.loss);
    CHECK(std::memcmp(theirs.view().data, own.view().data,
                      static_cast<std::size_t>(own.view().num_bytes())) == 0);
  }
  TinyTraining other(DType::bf16,
                     "sgd");  // equal first parameters, other settings: another gradient
  GradCache third(other.experiment, {nullptr, &file});
  CHECK(third.micro_batch_grad(1, 0, params, digest, 0).values.data() != nullptr);
}

TEST_CASE("GradStore: the key of parameters is their bits, without padding") {
  TinyTraining run(DType::bf16);
  const DenseBaseline baseline(run.experiment, run.leaves);
  const TensorView params = baseline.optimizer().param();
  GuardedBuffer copy(params.numel, params.dtype);
  std::memcpy(copy.data(), params.data, static_cast<std::size_t>(params.num_bytes()));
  auto* words = static_cast<std::uint16_t*>(copy.data());
  const TensorSlot& slot = run.experiment.layout().tensors()[2];
  const Digest digest = run.leaves.parameters_digest(params);
  REQUIRE(slot.begin + slot.numel < run.experiment.layout().tensors()[3].begin);
  words[slot.begin + slot.numel] ^= 1U;
  CHECK(run.leaves.parameters_digest(copy.view()) == digest);
  for (const std::int64_t element : {slot.begin, slot.begin + slot.numel - 1}) {
    words[element] ^= 0x8000U;  // even another sign of a zero is a difference
    CHECK(run.leaves.parameters_digest(copy.view()) != digest);
    words[element] ^= 0x8000U;
  }
}

TEST_CASE("available_memory: positive on a test machine") { CHECK(available_memory() > plenty); }

}  // namespace grad_store_test
