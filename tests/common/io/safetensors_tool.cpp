// Tool for the comparison with other safetensors libraries.
//   dump FILE      one line per metadata entry and tensor: name, type, shape, XXH3-128 of its bytes
//   copy IN OUT    reads everything and writes it again
//   write FILE     every element type, odd shapes; byte i of a tensor is (37 i + length of its name) mod 256
//   corpus DIR     small files, good and hostile: the seeds of the fuzzer

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/digest.hpp"
#include "common/base/error.hpp"
#include "common/io/safetensors/safetensors.hpp"
#include "tests/common/io/safetensors_build.hpp"
#include "tests/common/io/safetensors_hostile.hpp"

namespace {

using namespace zeroproof;

std::vector<std::byte> read_all(const SafetensorsReader& reader, const SafeTensor& tensor) {
  std::vector<std::byte> bytes(tensor.num_bytes());
  reader.read(tensor, 0, bytes);
  return bytes;
}

void dump(const std::string& path) {
  const SafetensorsReader reader = SafetensorsReader::open(path);
  for (const auto& [key, value] : reader.metadata()) {
    std::printf("metadata %s=%s\n", key.c_str(), value.c_str());
  }
  for (const SafeTensor& tensor : reader.header().tensors) {
    const std::vector<std::byte> bytes = read_all(reader, tensor);
    std::string shape;
    for (const std::int64_t dim : tensor.shape)
      shape += (shape.empty() ? "" : ",") + std::to_string(dim);
    std::printf("tensor %s %s [%s] %s\n", tensor.name.c_str(),
                std::string(name(tensor.dtype)).c_str(), shape.c_str(),
                to_hex(raw_digest(bytes.data(), tensor.num_bytes())).c_str());
  }
}

void copy(const std::string& from, const std::string& to) {
  const SafetensorsReader reader = SafetensorsReader::open(from);
  std::vector<SafeTensorSpec> specs(reader.header().tensors.begin(), reader.header().tensors.end());
  SafetensorsWriter writer(to, specs, reader.metadata());
  for (const SafeTensor& tensor : reader.header().tensors) {
    reader.for_each_chunk(
        tensor, [&](Span<const std::byte> chunk) { writer.write(tensor.name, chunk); }, 1000);
  }
  writer.finish();
}

void write(const std::string& path) {
  const std::vector<std::vector<std::int64_t>> shapes = {{},        {7},       {0},
                                                         {3, 0, 5}, {17, 129}, {2, 3, 1, 2, 5}};
  std::vector<SafeTensorSpec> specs;
  for (int d = 0; d < num_safe_dtypes; ++d) {
    for (std::size_t s = 0; s < shapes.size(); ++s) {
      const auto dtype = static_cast<SafeDType>(d);
      specs.push_back({std::string(name(dtype)) + "/" + std::to_string(s), dtype, shapes[s]});
    }
  }
  SafetensorsWriter writer(path, specs,
                           {{"format", "np"}, {"quote \"and\" \\", "line\nbreak \xC3\xA9"}});
  for (const SafeTensorSpec& spec : specs) {
    const std::int64_t count = *safetensors_numel(spec.shape) * num_bytes(spec.dtype);
    std::vector<std::byte> bytes(count);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(37 * i + spec.name.size());
    writer.write(spec.name, bytes);
  }
  writer.finish();
}

void corpus(const std::string& folder) {
  const auto save = [&](std::string file, const std::string& bytes) {
    for (char& c : file) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    std::ofstream stream(std::filesystem::path(folder) / file, std::ios::binary);
    stream << bytes;
    stream.close();
    ZP_CHECK(stream.good(), ErrorCode::io, file + " cannot be written",
             "the corpus would be incomplete", "create the folder");
  };
  for (const tests::HostileCase& hostile : tests::small_hostile_cases())
    save(hostile.name, hostile.bytes);
  save("good_small", tests::small_file());
  save("good_empty", tests::safetensors_bytes("{}", ""));
  std::string entries;
  std::size_t at = 0;
  for (int d = 0; d < num_safe_dtypes; ++d) {
    const auto dtype = static_cast<SafeDType>(d);
    const std::size_t end = at + static_cast<std::size_t>(num_bytes(dtype)) * 8;
    entries += (d == 0 ? "" : ",") +
               tests::entry(std::to_string(d), name(dtype), "[2,4]",
                            "[" + std::to_string(at) + "," + std::to_string(end) + "]");
    at = end;
  }
  save("good_all_dtypes", tests::safetensors_bytes("{" + entries + "}", tests::zeros(at)));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 2 ? argv[1] : "";
  try {
    if (command == "dump") {
      dump(argv[2]);
    } else if (command == "copy" && argc > 3) {
      copy(argv[2], argv[3]);
    } else if (command == "write") {
      write(argv[2]);
    } else if (command == "corpus") {
      corpus(argv[2]);
    } else {
      std::fprintf(stderr,
                   "usage: safetensors_tool dump FILE | copy IN OUT | write FILE | corpus DIR\n");
      return 2;
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "safetensors_tool: %s\n", error.what());
    return 1;
  }
  return 0;
}
