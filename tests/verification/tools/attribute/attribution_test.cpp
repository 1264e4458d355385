// zeroproof attribute on recordings written here; zproof.torch's own are compared in operations_test.py.

#include <doctest.h>

#include <fstream>

#include "common/base/error.hpp"
#include "common/io/json.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "verification/tools/attribute/attribution_report.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using namespace zeroproof::tests;

/// The lines of one file, which tests change.
struct Recording {
  std::string torch = "2.15.0", onednn = "3.13", cpu = "EPYC", seed = "1", threads = "1",
              tf32 = "off";
  std::string variables = "{}", path = "train.py", text = "y = f(x)", place;
  int rank = 0, world = 1;
  std::vector<std::string> operations;
  bool ends = true;

  std::string content() const {
    std::string all = R"({"schema":"zeroproof-operations/1","rank":)" + std::to_string(rank) +
                      R"(,"world":)" + std::to_string(world) + R"(,"libraries":{"torch":")" +
                      torch + R"(","oneDNN":")" + onednn + R"("},"machine":{"CPU":")" + cpu +
                      R"("},"environment":)" + variables + R"(,"seed":")" + seed + "\"}\n" +
                      R"({"settings":{"threads":")" + threads + R"(","cudnn.deterministic":")" +
                      tf32 + "\"}}\n" + R"({"line":[")" + path + R"(",7,")" + text + "\"]}\n";
    for (const std::string& one : operations) all += one + "\n";
    if (ends) all += "{\"end\":" + std::to_string(operations.size()) + "}\n";
    return all;
  }
};

/// Inputs and outputs as [name, digest, writer]; all have the shape [4].
std::string operation(const std::string& name, const std::string& inputs, const std::string& digest,
                      const std::string& place = "") {
  return "[\"" + name + "\",\"forward\",\"net\",0,-1,[" + inputs + "],[[\"result\",\"f32[4]" +
         place + "\",\"" + digest + "\"]]]";
}
std::string input(const std::string& name, const std::string& digest, const std::string& writer) {
  return "[\"" + name + "\",\"f32[4]\",\"" + digest + "\",\"" + writer + "\"]";
}

/// A chain of products, additions and sums of `layers` layers; a digest is "a" and the number of the operation.
Recording chain(int layers = 4) {
  Recording made;
  for (int i = 0; i < 3 * layers; ++i) {
    const std::string names[] = {"aten.mm.default", "aten.add.Tensor", "aten.sum.default"};
    made.operations.push_back(
        operation(names[i % 3],
                  i == 0 ? input("self", "d", "outside")
                         : input("self", "a" + std::to_string(i - 1), std::to_string(i - 1)),
                  "a" + std::to_string(i)));
  }
  return made;
}

/// The chain with other bits from one operation on: its own first digest is "b".
Recording drifted(std::size_t from, Recording made = chain()) {
  for (std::size_t i = from; i < made.operations.size(); ++i) {
    std::string& line = made.operations[i];
    for (std::size_t at = line.find("\"a"); at != std::string::npos;
         at = line.find("\"a", at + 1)) {
      if (line.compare(at, 6, "\"aten.") == 0) continue;
      if (std::stoul(line.substr(at + 2)) >= from) line[at + 1] = 'b';
    }
  }
  return made;
}

class Both {
 public:
  RankAttribution of(const Recording& before, const Recording& after) const {
    write("old", before.content());
    write("new", after.content());
    return attribute_files(folder_.file("old"), folder_.file("new")).front();
  }
  std::string sentence(const Recording& before, const Recording& after) const {
    return of(before, after).found.sentence();
  }
  /// Of the file NAME; "" if it can be read.
  std::string refusal(const std::string& content) const {
    write("bad", content);
    try {
      read_operations(folder_.file("bad"));
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::io);
      return error.what();
    }
    return "";
  }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_.file(name), std::ios::binary) << content;
  }
  std::string file(const std::string& name) const { return folder_.file(name); }

 private:
  TemporaryFolder folder_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("Attribute: equal recordings are equal, whatever differs around them") {
  const Both both;
  Recording other = chain();
  CHECK(both.sentence(chain(), other) == "equal");
  other.torch = "2.14.0";
  other.text = "another line";
  const RankAttribution found = both.of(chain(), other);
  CHECK(found.found.verdict == AttributionVerdict::equal);
  CHECK(found.found.counts.agree == 12);
  CHECK(found.found.differences.size() == 1);
}

TEST_CASE("Attribute: the first operation with other bits from the same inputs is the origin") {
  const Both both;
  Recording other = drifted(4);
  const Attribution found = both.of(chain(), other).found;
  CHECK(found.origin.kind == OriginKind::kernel);
  CHECK(found.origin.before == 4U);
  CHECK(found.counts.agree == 4);
  CHECK(found.counts.own == 1);
  CHECK(found.counts.inherit == 7);
  CHECK(found.sentence() == "regression: aten.add.Tensor computes other bits from the same inputs");

  other.threads = "2";
  CHECK(both.sentence(chain(), other) == "drift, explained by threads 1 -> 2");
  other.variables = R"({"OMP_NUM_THREADS":"2"})";
  CHECK(both.sentence(chain(), other) == "drift, explained by threads 1 -> 2");
  other.cpu = "Xeon";
  CHECK(both.sentence(chain(), other) == "drift, explained by CPU EPYC -> Xeon or threads 1 -> 2");
}

TEST_CASE("Attribute: libraries inside of torch are no cause beside another release of it") {
  const Both both;
  Recording other = drifted(4);
  other.torch = "2.14.0";
  other.onednn = "3.9";
  CHECK(both.sentence(chain(), other) == "drift, explained by torch 2.15.0 -> 2.14.0");
  other.torch = "2.15.0";
  CHECK(both.sentence(chain(), other) == "drift, explained by oneDNN 3.13 -> 3.9");
}

TEST_CASE("Attribute: settings of CUDA are causes where the operation runs there") {
  const Both both;
  Recording other = drifted(4);
  other.tf32 = "on";
  CHECK(has(both.sentence(chain(), other), "regression"));
  Recording old = chain();
  for (Recording* one : {&old, &other}) {
    std::string& line = one->operations[4];
    line.replace(line.rfind("f32[4]"), 6, "f32[4] cuda");
  }
  CHECK(both.sentence(old, other) == "drift, explained by cudnn.deterministic off -> on");
}

TEST_CASE("Attribute: replaced, inserted and removed operations") {
  const Both both;
  Recording other = chain();
  other.operations[4] = operation("aten.addcmul.default", input("self", "a3", "3"), "b4");
  other = drifted(5, other);
  other.operations[5] = operation("aten.sum.default", input("self", "b4", "4"), "b5");
  CHECK(both.sentence(chain(), other) ==
        "regression: operation replaced: aten.add -> aten.addcmul");
  CHECK(both.sentence(other, chain()) ==
        "regression: operation replaced: aten.addcmul -> aten.add");

  SUBCASE("by another release, where the program's line is the same") {
    other.torch = "2.14.0";
    CHECK(both.sentence(chain(), other) == "drift, explained by torch 2.15.0 -> 2.14.0");
    other.text = "y = g(x)";
    CHECK(has(both.sentence(chain(), other), "regression: operation replaced"));
  }
  SUBCASE("by another release of the package that has the line") {
    Recording old = chain();
    for (Recording* one : {&old, &other}) one->path = "/usr/site-packages/my_models/gpt.py";
    old.onednn += R"(","my-models":"1.0)";
    other.onednn += R"(","my-models":"1.1)";
    other.text = "y = g(x)";
    CHECK(both.sentence(old, other) == "drift, explained by my-models 1.0 -> 1.1");
  }
  SUBCASE("with the same results") {
    other = chain();
    other.operations[4] = operation("aten.addcmul.default", input("self", "a3", "3"), "a4");
    CHECK(both.sentence(chain(), other) ==
          "regression: operation replaced: aten.add -> aten.addcmul");
  }
  SUBCASE("a view of one side alone") {
    other = chain();
    other.operations.push_back(operation("aten.view.default", input("self", "", "3"), ""));
    CHECK(both.sentence(chain(), other) == "equal");
  }
}

TEST_CASE("Attribute: layers that one side repeats are aligned with the nearest") {
  const Recording few = chain(10), many = chain(12);
  std::vector<Operation> before, after;
  const Both both;
  both.write("few", few.content());
  both.write("many", many.content());
  const auto rows = align(read_operations(both.file("few")).operations,
                          read_operations(both.file("many")).operations);
  CHECK(std::ranges::count_if(rows, &AlignedRow::is_pair) == 30);
  CHECK(has(both.sentence(few, many), "OLD ends after 30 operations"));
}

TEST_CASE("Attribute: options, seeds, data and memory") {
  const Both both;
  const auto changed = [&](std::size_t at, const std::string& inputs, const std::string& digest) {
    Recording made = drifted(at + 1);
    made.operations[at] = operation("aten.add.Tensor", inputs, digest);
    made.operations[at + 1] =
        operation("aten.sum.default", input("self", digest, std::to_string(at)), "b99");
    return made;
  };
  const std::string self = input("self", "a3", "3");
  const auto sentence = [&](const Recording& a, const Recording& b) { return both.sentence(a, b); };
  CHECK(sentence(changed(4, self + R"(,["alpha","1"])", "a4"),
                 changed(4, self + R"(,["alpha","2"])", "b4")) ==
        "regression: argument alpha of aten.add: 1 -> 2");
  CHECK(sentence(changed(4, self, "a4"), changed(4, self + R"(,["alpha","2"])", "b4")) ==
        "regression: argument alpha of aten.add: (default) -> 2");
  CHECK(sentence(changed(4, self, "a4"), changed(4, input("self", "c3", "3"), "b4")) ==
        "regression: input self of aten.add was changed after aten.mm #3 by something that is no "
        "recorded operation");
  CHECK(sentence(changed(4, self, "a4"), changed(4, input("self", "a1", "1"), "b4")) ==
        "regression: input self of aten.add reads another result: aten.mm #3 -> aten.add #1");
  CHECK(sentence(changed(4, input("self", "d1", "outside"), "a4"),
                 changed(4, input("self", "d2", "outside"), "b4")) ==
        "other inputs: data: input self of aten.add f32[4]");
  CHECK(sentence(changed(4, input("self", "d1", "parameter"), "a4"),
                 changed(4, input("self", "d", "parameter"), "b4")) ==
        "other inputs: initial parameters: input self of aten.add f32[4], in another order: it is "
        "OLD's at operation #0");
  Recording old = changed(4, self + R"(,["random state","77"])", "a4");
  Recording other = changed(4, self + R"(,["random state","78"])", "b4");
  CHECK(has(sentence(old, other),
            "other inputs: the state of the random generator, with the seed 1"));
  other.seed = "2";
  CHECK(sentence(old, other) == "other inputs: seed 1 -> 2");
  // Memory without values on one side is not compared.
  const Attribution unset =
      both.of(changed(4, input("self", "?", "3"), "?"), changed(4, input("self", "a9", "3"), "b4"))
          .found;
  CHECK(unset.origin.kind == OriginKind::none);
  CHECK(unset.counts.views == 1);
}

TEST_CASE("Attribute: another program is refused") {
  const Both both;
  Recording other = chain();
  for (std::string& line : other.operations) {
    for (std::size_t at = line.find("[4]"); at != std::string::npos; at = line.find("[4]", at))
      line.replace(at, 3, "[5]");
  }
  CHECK_THROWS_WITH_AS(both.of(chain(), other), doctest::Contains("0 operations in common of 12"),
                       Error);
  CHECK_THROWS_WITH_AS(both.of(chain(), other), doctest::Contains("programs or models"), Error);
}

TEST_CASE("Attribute: recordings without a compared result prove nothing") {
  const Both both;
  Recording made = chain();
  made.operations = {operation("aten.empty.memory_format", R"(["size","[4]"])", "?"),
                     operation("aten.sin.default", input("self", "?", "0"), "?")};
  CHECK_THROWS_WITH_AS(both.of(made, made), doctest::Contains("have no result that is compared"),
                       Error);
  made.operations.push_back(operation("aten.mm.default", input("self", "d", "outside"), "a0"));
  CHECK(both.sentence(made, made) == "equal");
  CHECK(both.of(made, made).found.remark.starts_with("1 operation with inputs that are not "));
  CHECK(both.of(chain(), chain()).found.remark == "");
}

TEST_CASE("Attribute: recordings that cannot be used") {
  const Both both;
  const std::string good = chain().content();
  CHECK(both.refusal(good).empty());
  CHECK(has(both.refusal(""), "is empty"));
  CHECK(has(both.refusal("{}\n"), "is no recording of operations"));
  CHECK(has(both.refusal("not JSON\n"), "is no recording of operations"));
  CHECK(has(both.refusal(R"({"schema":"zeroproof-diff/1"})"
                         "\n"),
            "has the schema zeroproof-diff/1"));
  Recording none = chain();
  none.operations.clear();
  CHECK(has(both.refusal(none.content()), "has no operation (nothing would be compared)"));
  const auto with = [&](const std::string& what, const std::string& by) {
    std::string text = good;
    const std::size_t at = text.find(what);
    REQUIRE(at != std::string::npos);
    return text.replace(at, what.size(), by);
  };
  CHECK(has(both.refusal(with("{\"end\":12}", "{\"end\":13}")), "counts 13 operations and has 12"));
  CHECK(has(both.refusal(with("\"rank\":0", "\"rank\":1")), "has rank 1 of 1"));
  CHECK(has(both.refusal(with("\"world\":1", "\"world\":1.5")), "is no recording"));
  CHECK(has(both.refusal(with("\"net\",0,", "\"net\",1,")), "a number out of range"));
  CHECK(has(both.refusal(with("\"net\",0,", "\"net\",1e99,")), "no whole number"));
  CHECK(has(both.refusal(with("\"a0\",\"0\"", "\"a0\",\"9\"")), "an operation that comes later"));
  CHECK(has(both.refusal(with("\"a0\",\"0\"", "\"xyz\",\"0\"")), "no number"));
  CHECK(has(both.refusal(with("[\"self\",\"f32[4]\",\"d\",\"outside\"]", "[\"self\"]")),
            "another length"));
  CHECK(has(both.refusal(with("[\"self\",\"f32[4]\",\"d\",\"outside\"]", "7")), "no array"));
  CHECK(has(both.refusal(good + "[]\n"), "goes on after its end"));
  CHECK(has(both.refusal(with("{\"line\":", "{\"lines\":")), "line 3 of "));
  CHECK_THROWS_WITH_AS(operations_files(both.file("absent.x")),
                       doctest::Contains("cannot be opened"), Error);
}

TEST_CASE("Attribute: a recording cut at any byte is refused or known to be incomplete") {
  const Both both;
  const std::string good = chain(2).content();
  std::size_t readable = 0;
  for (std::size_t size = 0; size < good.size(); size += 3) {
    CAPTURE(size);
    const std::string refusal = both.refusal(good.substr(0, size));
    if (!refusal.empty()) continue;
    ++readable;
    CHECK(read_operations(both.file("bad")).ends_early == "the program ended before the recording");
    const Attribution found = attribute_files(both.file("bad"), both.file("bad")).front().found;
    CHECK(found.verdict == AttributionVerdict::regression);
  }
  CHECK(readable > 100);
}

TEST_CASE("Attribute: ranks are compared with themselves, and collectives are no origin") {
  const Both both;
  for (const std::string side : {"old", "new"}) {
    for (int rank = 0; rank < 2; ++rank) {
      Recording one = chain();
      if (side == "new" && rank == 1) one = drifted(7);
      if (side == "new" && rank == 0) {  // receives the other's bits in operation 3
        one = drifted(5);
        one.operations[4] = operation("aten.add.Tensor", input("self", "c3", "3"), "b4");
        one.operations[5] = operation("aten.sum.default", input("self", "b4", "4"), "b5");
      }
      if (rank == 0)
        one.operations[3] = operation("c10d.allreduce_.default", input("self", "a2", "2"), "?");
      one.rank = rank;
      one.world = 2;
      both.write(side + ".rank" + std::to_string(rank) + ".x", one.content());
    }
  }
  const auto ranks = attribute_files(both.file("old.x"), both.file("new.x"));
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[0].found.origin.kind == OriginKind::collective);
  CHECK(first_of(ranks).before.rank == 1);
  CHECK(has(attribution_text(ranks), "rank 0     regression: the result of c10d.allreduce_"));
  std::filesystem::remove(both.file("new.rank1.x"));
  CHECK_THROWS_WITH_AS(attribute_files(both.file("old.x"), both.file("new.x")),
                       doctest::Contains("has 2 ranks and"), Error);
  std::filesystem::rename(both.file("new.rank0.x"), both.file("one.rank1.x"));
  CHECK_THROWS_WITH_AS(attribute_files(both.file("old.rank1.x"), both.file("one.rank1.x")),
                       doctest::Contains("is of rank 1 of 2 and"), Error);
}

TEST_CASE("Attribute: the command's exit codes and JSON") {
  const Both both;
  both.write("old", chain().content());
  both.write("same", chain().content());
  Recording other = drifted(4);
  other.threads = "2";
  both.write("new", other.content());
  const auto run = [&](const std::string& after, const std::string& more = "") {
    return run_cli("attribute " + quoted(both.file("old")) + " " + quoted(both.file(after)) + " " +
                   more);
  };
  CHECK(run("same").exit_code == 0);
  const CliResult result = run("new", "--json " + quoted(both.file("report")));
  CHECK(result.exit_code == 1);
  CHECK(has(result.out, "drift, explained by threads 1 -> 2\n"));
  const Json json = Json::parse(read_file(both.file("report")));
  CHECK(json.at("schema").get<std::string>() == "zeroproof-attribution/1");
  CHECK(json.at("verdict").get<std::string>() == "drift");
  expect_refusal(run("absent"), "cannot be opened");
  expect_refusal(run("new", "--json " + quoted(both.file("old"))), "old");
}
