#include "verification/quantization/yaml.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "common/base/error.hpp"
#include "common/io/safetensors_types.hpp"

namespace zeroproof {
namespace {

std::int64_t line_of(const YAML::Mark& mark) { return std::max(mark.line + 1, 1); }

/// A list or map that is not complete.
struct Open {
  YamlNode node;
  YAML::anchor_t anchor = 0;
  std::optional<YamlNode> key;
  std::int64_t values = 1;  ///< with everything in it
};

/// The library's events as a tree. Its own tree would keep the last of two equal keys, and says nothing.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(const std::string& file) : file_(file) {}

  std::optional<YamlNode> root;

  void OnDocumentStart(const YAML::Mark& mark) override {
    require(!root, line_of(mark), "a second document begins", "nobody would read it",
            "remove it: one document, nothing before or behind it");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    take({YamlNode::Kind::nothing, line_of(mark), false, "", {}, {}}, anchor, 1);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool quoted = tag == "!";
    if (!quoted) refuse_tag(tag, line_of(mark));
    take({YamlNode::Kind::scalar, line_of(mark), quoted, value, {}, {}}, anchor, 1);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto named = anchors_.find(anchor);
    require(named != anchors_.end(), line_of(mark), "an alias stands inside of what it names",
            "a copy of it would have no end", "write the values out");
    take(named->second.first, 0, named->second.second);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(YamlNode::Kind::list, line_of(mark), tag, anchor);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(YamlNode::Kind::map, line_of(mark), tag, anchor);
  }
  void OnMapEnd() override { end(); }

 private:
  void require(bool good, std::int64_t line, const std::string& problem, const std::string& why,
               const std::string& remedy) const {
    ZP_CHECK(good, ErrorCode::config, file_ + ":" + std::to_string(line) + ": " + problem, why, remedy);
  }

  void refuse_tag(const std::string& tag, std::int64_t line) const {
    require(tag.empty() || tag == "?", line, "there is a tag, " + shown_name(tag),
            "a field's type is known, and no value may choose another", "remove it");
  }

  void begin(YamlNode::Kind kind, std::int64_t line, const std::string& tag, YAML::anchor_t anchor) {
    refuse_tag(tag, line);
    require(static_cast<std::int64_t>(open_.size()) < most_yaml_levels, line,
            "values are nested more than " + std::to_string(most_yaml_levels) + " deep",
            "no configuration is that deep", "correct the line");
    Open opened;
    opened.node.kind = kind;
    opened.node.line = line;
    opened.anchor = anchor;
    open_.push_back(std::move(opened));
  }

  void end() {
    Open done = std::move(open_.back());
    open_.pop_back();
    take(std::move(done.node), done.anchor, done.values);
  }

  /// A value that is complete, with `values` values in it.
  void take(YamlNode node, YAML::anchor_t anchor, std::int64_t values) {
    const std::int64_t line = node.line;
    require(
        (values_ += values) <= most_yaml_values, line,
        "there are more than " + std::to_string(most_yaml_values) + " values, copies of aliases with them",
        "no configuration is that long", "write fewer aliases or fewer rules");
    if (anchor != 0) anchors_[anchor] = {node, values};
    if (open_.empty()) {
      root = std::move(node);
      return;
    }
    Open& parent = open_.back();
    parent.values += values;
    if (parent.node.kind == YamlNode::Kind::list) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.key) {
      refuse_key(node, parent.node);
      parent.key = std::move(node);
    } else {
      parent.node.members.push_back(
          {parent.key->text, parent.key->line, parent.key->quoted, std::move(node)});
      parent.key.reset();
    }
  }

  void refuse_key(const YamlNode& key, const YamlNode& map) const {
    require(key.kind == YamlNode::Kind::scalar, key.line, "a key is no text", "fields and configs have names",
            "write a name and a colon");
    require(key.quoted || key.text != "<<", key.line, "there is a merge key, <<",
            "readers of YAML 1.2 do not know it", "write the fields out, or use an alias for the whole map");
    for (const YamlMember& member : map.members) {
      require(
          member.key != key.text, key.line,
          "the key " + shown_name(key.text) + " stands twice, first in line " + std::to_string(member.line),
          "most readers keep only the last one", "remove one of them");
    }
  }

  const std::string& file_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, std::pair<YamlNode, std::int64_t>> anchors_;
  std::int64_t values_ = 0;
};

}  // namespace

bool reads_yaml() { return true; }

YamlNode parse_yaml(std::string_view text, const std::string& file) {
  check_yaml_text(text, file);
  Builder builder(file);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    fail(ErrorCode::config, file + ":" + std::to_string(line_of(error.mark)) + ": this is no YAML",
         error.msg.empty() ? "a value or a mark is missing" : error.msg, "correct the line");
  }
  return builder.root ? std::move(*builder.root) : YamlNode{};
}

}  // namespace zeroproof
