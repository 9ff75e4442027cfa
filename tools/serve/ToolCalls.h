/// Calls of tools in the text of a reply.
///
/// A model that was shown tools writes a call as text, in the format that its
/// chat template has for calls of earlier replies:
///
///   Json      {"name": "f", "parameters": {"x": 1}}          Llama 3
///   Hermes    <tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>
///             Hermes, Qwen 2.5 and 3, SmolLM 3
///   Mistral   [TOOL_CALLS] [{"name": "f", "arguments": {"x": 1}}]
///
/// A call is an object with the name of a tool of the request, and `arguments`
/// or `parameters`, which are an object. All else is text: a call of another
/// tool, one that is cut off, and JSON that is none. Texts of the format Json
/// have calls alone, one after another, or none.
#pragma once

#include "runtime/cria_text.hpp"
#include "tools/serve/Exchange.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cria::serve {

enum class CallFormat { None, Json, Hermes, Mistral };

/// How the model that is served calls tools.
struct CallSyntax {
  CallFormat format = CallFormat::None;
  /// The token before calls, if it is special: then texts do not have it.
  std::optional<int32_t> marker = {};
};

/// Has `chat` write a conversation with a call: the format is the one that the
/// call is read back by. None if there is no such format, or if the template
/// shows no tools to the model.
CallSyntax callSyntaxOf(const Chat &chat, const Tokenizer &tokenizer);

/// A call that was read.
struct Call {
  std::string name, arguments; // a JSON object, as the model wrote it
};

/// Follows JSON byte by byte.
struct JsonWalk {
  int64_t depth = 0; // of arrays and objects that are open
  bool inString = false, escaped = false;

  void take(char byte);
};

/// Reads one text, piece by piece.
class CallReader {
public:
  /// `names` are those of the tools. With `isForced` the text goes on after
  /// the marker of calls.
  CallReader(CallFormat format, std::vector<std::string> names, bool isForced);

  void push(std::string_view piece);
  /// Takes the special token before calls.
  void pushMarker();
  /// Ends the text.
  void finish();

  /// What is certain, and was not taken before.
  std::string takeText();
  std::vector<Call> takeCalls();

private:
  enum class State {
    Text,  // outside of calls; `held` is blanks, and a part of the marker
    Start, // of a text in Json: `held` is blanks, and a part of the marker
    Value, // in the JSON of calls, or the blanks before it
    Close, // after the JSON, before the marker behind it
    Next,  // of a text in Json: after a call
    Plain, // all that follows is text
  };

  void take(char byte);
  void takeOutside(char byte);
  void takeStart(char byte);
  void takeValue(char byte);
  void takeClose(char byte);
  void takeNext(char byte);
  bool match(std::string_view marker, char byte);
  void open();
  void endValue();
  void accept();
  void release();
  void refuse(char byte);
  bool addCall(std::string_view object);

  CallFormat format;
  std::vector<std::string> names;
  State state = State::Text;
  std::string held;          // text that may be a part of a call
  size_t matched = 0;        // bytes of a marker at the end of `held`
  size_t begin = 0;          // of the value in `held`
  JsonWalk walk;             // of the value
  std::vector<Call> found;   // in `held`
  std::string text;          // certain
  std::vector<Call> calls;   // likewise
  bool isAfterCalls = false; // and blanks
};

/// What a text must go on with that has to have a call: `tools` are those of
/// the request, `name` the one to call ("": any).
struct ForcedCall {
  std::string prefix; // text before it, special tokens too
  std::string schema; // of the JSON that follows
};
ForcedCall forceCall(CallFormat format, const json &tools,
                     const std::string &name, bool several);

} // namespace cria::serve
