/// Chat templates, which turn a conversation into one text.
///
/// A template is a program in a language like Jinja, and comes from whoever
/// made the checkpoint. So a small interpreter runs it, which has only values,
/// and bounds on time, memory and depth. A template can fail, but it cannot
/// access anything else or run for long. Parts of Jinja that are not supported
/// are refused by name.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/chat/Syntax.h"
#include "runtime/text/chat/Value.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria::chat {

/// Whether a variable of this name is a special token: "bos_token" and the
/// like.
bool namesToken(std::string_view key);

/// A parsed template with the special tokens it may name; immutable.
class Template {
public:
  /// Reads chat_template.jinja of `folder`, or else "chat_template" of
  /// tokenizer_config.json (of several, the one named "default"), and special
  /// tokens from tokenizer_config.json. Without a template, CRIA_NOT_FOUND.
  /// `folder` may also be the path of a GGUF file.
  static Result<Template> load(const std::string &folder);

  /// Parses `source`; `name` stands for the file in errors.
  static Result<Template> parse(std::string_view source,
                                const std::string &name);

  /// The text for `variables`, an object in JSON: "messages", a list of objects
  /// with "role" and "content"; "add_generation_prompt", false if it is not
  /// given; "tools" and "documents", none if they are not given; and others
  /// that a template reads. Line breaks and blanks are as in transformers. As
  /// there, a message's null members are left out, and its reasoning has the
  /// names "reasoning_content" and "thinking".
  Result<std::string> render(std::string_view variables) const;
  /// The same for variables that have been read, at the expense of `budget`.
  Result<Text> render(const Value &variables, Budget &budget) const;

private:
  static Result<Template> loadGguf(const std::string &path);

  std::string name;
  std::vector<Statement> statements;
  std::vector<std::pair<std::string, std::string>> tokens; // by name
};

} // namespace cria::chat
