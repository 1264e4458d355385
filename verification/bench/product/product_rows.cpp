#include "verification/bench/product/product_rows.hpp"

#include <memory>
#include <tuple>

#include "common/comm/self.hpp"
#include "cuda/host/base/isa.hpp"
#include "verification/bench/measure/rounds.hpp"
#include "verification/bench/product/product_step.hpp"
#include "verification/bench/product/save.hpp"
#include "verification/bench/product/twin_step.hpp"

namespace zeroproof::verification::bench {
namespace {

/// Stages do not change a bit, so neighbours can share what is wanted of them.
class Contract {
 public:
  const ContractResult& of(const ProductCase& what, const FlatLayout& layout, std::int64_t steps) {
    const Key key{what.micro_batches, what.tensors, what.numel, what.grad_dtype, steps};
    if (result_ == nullptr || key != key_) {
      result_.reset();
      result_ = std::make_unique<ContractResult>(contract_steps(
          {layout, what.micro_batches, what.num_leaves(), steps, true, what.grad_dtype, what.threads}));
      key_ = key;
    }
    return *result_;
  }

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, DType, std::int64_t>;
  Key key_;
  std::unique_ptr<ContractResult> result_;
};

std::vector<double> quotients(const std::vector<double>& above, const std::vector<double>& below,
                              double factor) {
  std::vector<double> values;
  for (std::size_t i = 0; i < above.size(); ++i) values.push_back(factor * above[i] / below[i]);
  return values;
}

std::vector<Row> make_rows(const ProductCase& what, ProductStep& product, TwinStep& twins) {
  const LimitLoops& loops = limit_loops(cuda::host::best_isa());
  const std::int64_t n = what.numel;
  std::vector<Row> rows;
  rows.push_back({"product", 0, n, [&product] { product.step(); }});
  rows.push_back({"twins", 0, n, [&twins] { twins.step(); }});
  rows.push_back({"addition", 0, n, [&twins] { twins.accumulate(); }});
  if (what.micro_batches > 1)
    rows.push_back(
        {"limit addition", 0, n, [&twins, &loops] { twins.move_addition(loops); }, {}, "addition"});
  rows.push_back({"limit read", 0, n, [&twins, &loops] { twins.move_read(loops); }, {}, "read"});
  rows.push_back({"limit update", 0, n, [&twins, &loops] { twins.move_update(loops, false); }, {}, "update"});
  rows.push_back(
      {"limit update nt", 0, n, [&twins, &loops] { twins.move_update(loops, true); }, {}, "update"});
  return rows;
}

void note_limit(ProductResult& result, const std::vector<Row>& rows) {
  const ProductCase& what = result.what;
  const auto added = static_cast<double>(what.micro_batches - 1);
  const auto width = static_cast<double>(num_bytes(what.grad_dtype));
  const double read = added > 0 ? 4 : width;  // of several leaves the sum is read, twice
  result.num_bytes = added * (8 + width) + 2 * read + 26;
  result.limit_seconds.assign(result.step.seconds.size(), 0.0);
  const auto add = [&](const char* shape, double times) {
    const Row* row = best_limit(rows, shape);
    for (std::size_t i = 0; row != nullptr && i < row->seconds.size(); ++i)
      result.limit_seconds[i] += times * row->seconds[i];
  };
  add("addition", added);
  add("read", 1);
  add("update", 1);
}

ProductResult measure_product(const ProductCase& what, int rounds, WorkerTeam& team, Contract& contract,
                              const std::string& save) {
  require_possible(what);
  const FlatLayout layout = layout_of(what);
  Leaves leaves(what, layout.padded_numel());
  TwinStep twins(what, layout.padded_numel(), leaves, team);
  const std::unique_ptr<Communicator> self = make_self_communicator();
  ProductStep product(what, layout, leaves, twins.first_state(), *self);
  product.step();  // besides the round that is not kept, so that what is kept comes after the second step
  twins.step();
  std::vector<Row> rows = make_rows(what, product, twins);
  measure(rows, rounds);

  ProductResult result{what, rows[0], rows[1], rows[2], {}, {}, 0, {}};
  for (Row* row : {&result.step, &result.twins, &result.addition}) row->body = nullptr;
  result.reduce_seconds.assign(product.reduce_seconds().end() - rounds, product.reduce_seconds().end());
  note_limit(result, rows);
  const ContractResult& wanted = contract.of(what, layout, product.steps());
  const bool same = product.as_contract(wanted);
  result.checks.push_back({"product = contract: master, moments, bf16 parameters", same, what.text()});
  result.checks.push_back(
      {"product: an infinite gradient changes nothing", product.skips_infinity(wanted), what.text()});
  // Of more leaves the tree is another order of additions than one after another.
  if (what.tensors == 1 && what.micro_batches <= 2)
    result.checks.push_back({"twins of a product row = contract", twins.as_contract(wanted), what.text()});
  if (!save.empty() && same) save_case(save, what, layout, leaves, product.steps(), wanted);
  return result;
}

}  // namespace

std::vector<double> ProductResult::step_to_twins() const { return quotients(step.seconds, twins.seconds, 1); }
std::vector<double> ProductResult::step_to_limit() const { return quotients(step.seconds, limit_seconds, 1); }
std::vector<double> ProductResult::reduce_to_addition() const {
  return quotients(reduce_seconds, addition.seconds, 1 / static_cast<double>(what.micro_batches));
}

std::vector<ProductCase> usual_cases(std::int64_t numel, std::int64_t bucket_numel, int threads) {
  std::vector<ProductCase> cases;
  const auto add = [&](std::int64_t micro_batches, std::int64_t tensors, int stage, DType grad_dtype) {
    cases.push_back(
        {micro_batches, std::min(tensors, numel), stage, grad_dtype, numel, bucket_numel, threads});
  };
  for (const std::int64_t tensors : {1, 69, 10000}) add(1, tensors, 0, DType::fp32);
  add(4, 1, 0, DType::fp32);
  for (const int stage : {0, 1, 2, 3}) add(4, 69, stage, DType::fp32);
  for (const std::int64_t tensors : {1, 69}) add(16, tensors, 0, DType::fp32);
  for (const std::int64_t micro_batches : {1, 16}) add(micro_batches, 1, 0, DType::bf16);
  return cases;
}

std::vector<ProductResult> measure_products(const std::vector<ProductCase>& cases, int rounds,
                                            WorkerTeam& team, const std::string& save) {
  for (const ProductCase& what : cases) require_possible(what);  // before the long part
  Contract contract;
  std::vector<ProductResult> results;
  for (const ProductCase& what : cases) {
    const bool last = results.size() + 1 == cases.size();
    results.push_back(measure_product(what, rounds, team, contract, last ? save : ""));
  }
  return results;
}

}  // namespace zeroproof::verification::bench
