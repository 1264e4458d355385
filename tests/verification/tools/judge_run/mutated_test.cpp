// Mutated recordings: refused, or judged, never a crash, and a changed number is never right.

#include <doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "common/base/error.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/verification/tools/judge_run/simulated_run.hpp"
#include "verification/tools/judge_run/judge_run.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using namespace zeroproof::tests;

struct Outcome {
  bool refused = false, wrong = false;
};

class Mutations {
 public:
  Mutations() {
    Simulation run;
    run.steps = 2;
    run.max_norm = 0.7;
    files_ = run.files();
    folder_ = root_.file("run");
    settings_ = root_.file("s.toml");
    std::ofstream(settings_) << "[optimizer]\nlr = 0.01\n";
  }

  /// As written, or with the bytes of one file changed by `change`.
  template <class Change>
  Outcome judged(const std::map<std::string, SimulatedFile>& files, const Change& change,
                 bool with_schedule = false) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    for (const auto& [name, file] : files) write_file(folder_ + "/" + name, file);
    change();
    JudgeRunSettings settings;
    settings.folder = folder_;
    if (with_schedule) settings.schedule = settings_;
    Outcome outcome;
    try {
      for (const Result& result : judge_run(settings).results)
        outcome.wrong = outcome.wrong || failed(result.status);
    } catch (const Error& error) {
      outcome.refused = true;
      CHECK((error.code() == ErrorCode::io || error.code() == ErrorCode::config ||
             error.code() == ErrorCode::damaged || error.code() == ErrorCode::invalid_argument));
      CHECK(std::string(error.what()).size() > 10);
    }
    return outcome;
  }

  const std::map<std::string, SimulatedFile>& files() const { return files_; }
  std::size_t draw(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }

  template <class Map>
  auto& any(Map& map) {
    return *std::next(map.begin(), static_cast<std::ptrdiff_t>(draw(map.size())));
  }

  /// Another value of another kind, or none, somewhere in the metadata.
  void change_json(Json& json) {
    if (json.kind() == Json::Kind::object && draw(8) != 0) {
      std::vector<std::string> names;
      for (const Json::Member& member : json.members()) names.push_back(member.name);
      if (!names.empty()) {
        const std::string& name = names[draw(names.size())];
        if (draw(6) == 0) {
          Json less = Json::object();
          for (const Json::Member& member : json.members()) {
            if (member.name != name) less[member.name] = member.value;
          }
          json = less;
          return;
        }
        Json value = json.at(name);
        change_json(value);
        json[name] = value;
        return;
      }
    }
    if (json.kind() == Json::Kind::array && draw(8) != 0 && json.begin() != json.end()) {
      Json changed = Json::array();
      const std::size_t chosen = draw(static_cast<std::size_t>(json.end() - json.begin()));
      std::size_t i = 0;
      const std::size_t how = draw(4);
      for (const Json& item : json) {
        Json value = item;
        if (i++ == chosen) {
          if (how == 0) continue;
          if (how == 1) changed.push_back(value);
          if (how > 1) change_json(value);
        }
        changed.push_back(value);
      }
      json = changed;
      return;
    }
    const Json values[] = {Json(nullptr),   Json(-1),        Json(0),
                           Json(1),         Json(2),         Json(std::int64_t{1} << 53),
                           Json(INT64_MAX), Json(INT64_MIN), Json(1e308),
                           Json(5e-324),    Json(-0.5),      Json("inf"),
                           Json("nan"),     Json(""),        Json("sgd"),
                           Json(true),      Json(false),     Json::array(),
                           Json::object(),  Json(1e30),      Json(0.1)};
    json = values[draw(std::size(values))];
  }

 private:
  TemporaryFolder root_;
  std::string folder_, settings_;
  std::map<std::string, SimulatedFile> files_;
  std::mt19937_64 random_{17};

 public:
  const std::string& folder() const { return folder_; }
};

void mutate(int count) {
  Mutations all;
  REQUIRE(!all.judged(all.files(), [] {}).wrong);
  int refused = 0, wrong = 0;
  for (int k = 0; k < count; ++k) {
    CAPTURE(k);
    std::map<std::string, SimulatedFile> files = all.files();
    auto& [name, file] = all.any(files);
    CAPTURE(name);
    Outcome outcome;
    const auto nothing = [] {};
    switch (k % 5) {
      case 0: {  // a number that no legal order gives
        auto& [kind, tensor] = all.any(file.tensors);
        CAPTURE(kind);
        if (tensor.values.empty()) continue;
        float& x = tensor.values[all.draw(tensor.values.size())];
        x = all.draw(4) == 0 ? std::numeric_limits<float>::quiet_NaN() : x + 0.25F;
        outcome = all.judged(files, nothing);
        CHECK((outcome.wrong || outcome.refused));
        break;
      }
      case 1:
        all.change_json(file.metadata);
        outcome = all.judged(files, nothing, all.draw(2) == 0);
        break;
      case 2: {  // a tensor more, less, longer or in another format
        auto& [kind, tensor] = all.any(file.tensors);
        const std::size_t how = all.draw(4);
        if (how == 0) tensor.values.push_back(1);
        if (how == 1) tensor.values.clear();
        if (how == 2) tensor.dtype = all.draw(2) == 0 ? DType::bf16 : DType::fp16;
        if (how == 3) file.tensors.erase(kind);
        outcome = all.judged(files, nothing);
        break;
      }
      case 3: {  // bytes of the file
        const std::string path = all.folder() + "/" + name;
        outcome = all.judged(files, [&] {
          std::ifstream in(path, std::ios::binary);
          std::string bytes{std::istreambuf_iterator<char>(in), {}};
          in.close();
          const std::size_t changes = 1 + all.draw(4);
          // Half of them in the header.
          const std::size_t range =
              all.draw(2) == 0 ? std::min<std::size_t>(bytes.size(), 3000) : bytes.size();
          for (std::size_t c = 0; c < changes; ++c)
            bytes[all.draw(range)] = static_cast<char>(all.draw(256));
          if (all.draw(4) == 0) bytes.resize(all.draw(bytes.size()));
          std::ofstream(path, std::ios::binary) << bytes;
        });
        break;
      }
      default: {  // the files of the folder
        const std::string path = all.folder() + "/" + name;
        const std::size_t how = all.draw(4);
        const std::string other = all.folder() + "/" + all.any(files).first;
        outcome = all.judged(files, [&] {
          if (how == 0) std::filesystem::remove(path);
          if (how == 1 && other != path) {
            std::filesystem::remove(path);
            std::filesystem::copy_file(other, path);
          }
          if (how == 2)
            std::filesystem::rename(path, all.folder() + "/step000009.rank0.safetensors");
          if (how == 3) std::filesystem::rename(path, all.folder() + "/stepx");
        });
        CHECK((outcome.refused || outcome.wrong || how == 1 || how >= 2));
      }
    }
    refused += outcome.refused ? 1 : 0;
    wrong += outcome.wrong ? 1 : 0;
  }
  CHECK(refused > count / 4);
  CHECK(wrong > count / 8);
}

}  // namespace

TEST_CASE("mutated recordings: never a crash, and a changed number is never right") { mutate(300); }

TEST_CASE("nightly: mutated recordings: never a crash, and a changed number is never right") {
  mutate(4000);
}
