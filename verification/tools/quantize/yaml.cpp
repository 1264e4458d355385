#include "verification/tools/quantize/yaml.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "common/base/error.hpp"
#include "common/io/json.hpp"
#include "common/io/safetensors/safetensors_types.hpp"

namespace zeroproof {
namespace {

std::int64_t line_of(const YAML::Mark& mark) { return std::max(mark.line + 1, 1); }

/// A list or map that is not complete.
struct Open {
  YamlNode node;
  YAML::anchor_t anchor = 0;
  std::optional<YamlNode> key;
  std::int64_t values = 1;  ///< with everything in it
  int column = 0;           ///< of a map in block style: the column of its keys; else -1
};

/// Whether the value at `at`, behind anchors and tags, is a scalar in quotation marks that never
/// ends. The library ends it at the end of the file.
bool never_closed(std::string_view text, std::size_t at) {
  while (at < text.size() && (text[at] == '&' || text[at] == '!')) {
    at = std::min(text.find_first_of(" \r\n", at), text.size());
    at = std::min(text.find_first_not_of(" \r\n", at), text.size());
  }
  if (at >= text.size() || (text[at] != '"' && text[at] != '\'')) return false;
  const char mark = text[at];
  for (++at; at < text.size(); ++at) {
    const bool twice = mark == '\'' && text.substr(at, 2) == "''";  // an escaped quotation mark
    if (twice || (mark == '"' && text[at] == '\\')) {
      ++at;
    } else if (text[at] == mark) {
      return false;
    }
  }
  return true;
}

/// The library's events as a tree. Its own tree would keep the last of two equal keys, without an
/// error.
class Builder : public YAML::EventHandler {
 public:
  Builder(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::optional<YamlNode> root;
  YAML::Mark last_scalar;

  void OnDocumentStart(const YAML::Mark& mark) override {
    require(!root, line_of(mark), "a second document begins", "it would be ignored",
            "remove it: one document, nothing before or behind it");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    take({YamlNode::Kind::nothing, line_of(mark), false, "", {}, {}}, anchor, 1);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool quoted = tag == "!";
    last_scalar = mark;
    refuse_tag(quoted && !is_tagged(mark) ? "" : tag, line_of(mark));
    require_further_right(mark, false);
    require(json_quoted(value).has_value(), line_of(mark),
            "there is an escape that the YAML library makes no UTF-8 of",
            "names and patterns are texts", "write the character, or \\u and its number");
    take({YamlNode::Kind::scalar, line_of(mark), quoted, value, {}, {}}, anchor, 1);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    require_further_right(mark, false);
    const auto named = anchors_.find(anchor);
    require(named != anchors_.end(), line_of(mark), "an alias is inside of the node it names",
            "a copy of it would have no end", "write the values out");
    take(named->second.first, 0, named->second.second);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    begin(YamlNode::Kind::list, mark, tag, anchor, style);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    begin(YamlNode::Kind::map, mark, tag, anchor, style);
  }
  void OnMapEnd() override { end(); }

 private:
  void require(bool good, std::int64_t line, const std::string& problem, const std::string& why,
               const std::string& remedy) const {
    ZP_CHECK(good, ErrorCode::config, file_ + ":" + std::to_string(line) + ": " + problem, why,
             remedy);
  }

  void refuse_tag(const std::string& tag, std::int64_t line) const {
    require(tag.empty() || tag == "?", line, "there is a tag, " + shown_name(tag),
            "a field's type is known, and no value may choose another", "remove it");
  }

  /// A lone ! before quotation marks, which the library does not report.
  bool is_tagged(const YAML::Mark& mark) const {
    std::size_t at = static_cast<std::size_t>(mark.pos);
    if (text_.substr(at, 1) == "&")
      at = text_.find_first_not_of(" \r\n", text_.find_first_of(" \r\n", at));
    return at < text_.size() && text_[at] == '!';
  }

  /// The value of a key in block style, if it begins in another line, must be indented further than
  /// the key; except for a list in block style. The library does not check this.
  void require_further_right(const YAML::Mark& mark, bool block_list) const {
    if (open_.empty() || !open_.back().key || open_.back().column < 0 || block_list) return;
    require(line_of(mark) == open_.back().key->line || mark.column > open_.back().column,
            line_of(mark), "this is no YAML", "a value is indented no further than its key",
            "write more blanks before it");
  }

  void begin(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
             YAML::anchor_t anchor, YAML::EmitterStyle::value style) {
    const std::int64_t line = line_of(mark);
    const bool block = style == YAML::EmitterStyle::Block;
    refuse_tag(tag, line);
    require_further_right(mark, block && kind == YamlNode::Kind::list);
    require(static_cast<std::int64_t>(open_.size()) < most_yaml_levels, line,
            "values are nested more than " + std::to_string(most_yaml_levels) + " deep",
            "no configuration is that deep", "correct the line");
    Open opened;
    opened.node.kind = kind;
    opened.node.line = line;
    opened.anchor = anchor;
    opened.column = block && kind == YamlNode::Kind::map ? mark.column : -1;
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
    require((values_ += values) <= most_yaml_values, line,
            "there are more than " + std::to_string(most_yaml_values) +
                " values, copies of aliases with them",
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
      if (node.kind == YamlNode::Kind::nothing)
        node.line = parent.key->line;  // not where the next value is
      parent.node.members.push_back(
          {parent.key->text, parent.key->line, parent.key->quoted, std::move(node)});
      parent.key.reset();
    }
  }

  void refuse_key(const YamlNode& key, const YamlNode& map) const {
    require(key.kind == YamlNode::Kind::scalar, key.line, "a key is no text",
            "fields and configs have names", "write a name and a colon");
    require(key.quoted || key.text != "<<", key.line, "there is a merge key, <<",
            "YAML 1.2 does not define it",
            "write the fields out, or use an alias for the whole map");
    for (const YamlMember& member : map.members) {
      require(member.key != key.text, key.line,
              "the key " + shown_name(key.text) + " occurs twice, first in line " +
                  std::to_string(member.line),
              "most readers keep only the last one", "remove one of them");
    }
  }

  std::string_view text_;  ///< as the library counts its bytes
  const std::string& file_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, std::pair<YamlNode, std::int64_t>> anchors_;
  std::int64_t values_ = 0;
};

}  // namespace

bool reads_yaml() { return true; }

YamlNode parse_yaml(std::string_view text, const std::string& file) {
  check_yaml_text(text, file);
  const std::string_view seen = text.substr(text.substr(0, 3) == "\xEF\xBB\xBF" ? 3 : 0);
  Builder builder(seen, file);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    fail(ErrorCode::config, file + ":" + std::to_string(line_of(error.mark)) + ": this is no YAML",
         error.msg.empty() ? "a value or a mark is missing" : error.msg, "correct the line");
  }
  ZP_CHECK(!never_closed(seen, static_cast<std::size_t>(builder.last_scalar.pos)),
           ErrorCode::config,
           file + ":" + std::to_string(line_of(builder.last_scalar)) + ": this is no YAML",
           "a quotation mark is never closed", "close it");
  const bool any = builder.root && builder.root->kind != YamlNode::Kind::nothing;
  return any ? std::move(*builder.root) : YamlNode{};
}

}  // namespace zeroproof
