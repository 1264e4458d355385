#include "verification/config/toml.hpp"

#include <sstream>

#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

namespace zeroproof {
namespace {

const toml::node& library_node(const void* node) { return *static_cast<const toml::node*>(node); }

template <class Value>
std::optional<Value> exactly(const void* node) {
  return library_node(node).value_exact<Value>();
}

toml::array library_array(const Json& list);
toml::table library_table(const Json& object);

/// Gives the value to `add`, as the library has it.
template <class Add>
void add_value(const Json& value, const Add& add) {
  switch (value.kind()) {
    case Json::Kind::null:
      break;  // TOML has no such value: the member is absent
    case Json::Kind::boolean:
      return add(value.get<bool>());
    case Json::Kind::integer:
    case Json::Kind::natural:
      return add(value.get<std::int64_t>());
    case Json::Kind::real:
      return add(value.get<double>());
    case Json::Kind::text:
      return add(value.get<std::string>());
    case Json::Kind::array:
      return add(library_array(value));
    case Json::Kind::object:
      return add(library_table(value));
  }
}

toml::array library_array(const Json& list) {
  toml::array array;
  for (const Json& item : list) add_value(item, [&](auto value) { array.push_back(std::move(value)); });
  return array;
}

toml::table library_table(const Json& object) {
  toml::table table;
  for (const auto& member : object.members()) {
    add_value(member.value, [&](auto value) { table.insert(member.name, std::move(value)); });
  }
  return table;
}

}  // namespace

std::int64_t TomlNode::line() const { return library_node(node_).source().begin.line; }

std::string TomlNode::shown() const {
  std::ostringstream text;
  library_node(node_).visit([&](const auto& value) { text << value; });
  return text.str();
}

std::optional<bool> TomlNode::boolean() const { return exactly<bool>(node_); }
std::optional<std::int64_t> TomlNode::integer() const { return exactly<std::int64_t>(node_); }
std::optional<double> TomlNode::real() const { return exactly<double>(node_); }
std::optional<std::string> TomlNode::text() const { return exactly<std::string>(node_); }

bool TomlNode::is_list() const { return library_node(node_).is_array(); }
bool TomlNode::is_table() const { return library_node(node_).is_table(); }

std::vector<TomlNode> TomlNode::items() const {
  std::vector<TomlNode> items;
  if (!is_list()) return items;
  for (const toml::node& item : *library_node(node_).as_array()) items.emplace_back(&item);
  return items;
}

std::vector<TomlMember> TomlNode::members() const {
  std::vector<TomlMember> members;
  if (!is_table()) return members;
  for (const auto& [key, node] : *library_node(node_).as_table()) {
    members.push_back({std::string(key.str()), TomlNode(&node)});
  }
  return members;
}

std::optional<TomlNode> TomlNode::member(std::string_view name) const {
  const toml::table* table = library_node(node_).as_table();
  const toml::node* node = table == nullptr ? nullptr : table->get(name);
  if (node == nullptr) return std::nullopt;
  return TomlNode(node);
}

TomlFile::TomlFile(std::string_view text, const std::string& name) {
  try {
    // What nodes point to: the base of the table, not the table.
    const auto root = std::make_shared<const toml::table>(toml::parse(text, name));
    root_ = std::shared_ptr<const void>(root, static_cast<const toml::node*>(root.get()));
  } catch (const toml::parse_error& error) {
    throw TomlError(std::string(error.description()), error.source().begin.line);
  }
}

std::string toml_text(const Json& object) {
  std::ostringstream text;
  text << library_table(object) << "\n";
  return text.str();
}

}  // namespace zeroproof
