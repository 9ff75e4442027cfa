/// A conversation in the terminal. The chat template renders each message with
/// all earlier ones, and the text is encoded; special tokens that a message
/// spells stay text. The session keeps the part of these ids that it already
/// holds: it is rewound to the first difference, and only the rest is fed. A
/// template may change earlier text; for example, it may leave out the part of
/// a reply before "</think>".
#include "tools/run/Process.h"
#include "tools/run/Run.h"

#include "runtime/text/chat/Prompt.h"
#include "runtime/text/tokenizer/Text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>
#include <unistd.h>

namespace cria {

namespace {

/// A template and the messages so far.
struct Conversation {
  chat::Template form;
  nlohmann::ordered_json messages;
  std::vector<int32_t> held; // ids in the session's cache

  void say(const char *role, std::string text) {
    messages.push_back({{"role", role}, {"content", std::move(text)}});
  }
};

} // namespace

static void restart(const Run &run, Conversation &talk) {
  talk.messages = nlohmann::ordered_json::array();
  if (!run.options.system.empty())
    talk.say("system", run.options.system);
}

/// Makes the conversation the prompt. The session keeps as much of it as it
/// can.
static Status encodeConversation(Run &run, Conversation &talk) {
  nlohmann::ordered_json variables = {{"messages", talk.messages},
                                      {"add_generation_prompt", true}};
  Result<std::vector<int32_t>> ids =
      chat::encode(talk.form, *run.tokenizer, variables.dump());
  if (!ids.ok())
    return ids.status();
  run.prompt = std::move(*ids);
  if (run.prompt.empty())
    return Status(CRIA_INVALID_ARGUMENT, "the chat template renders nothing");
  if (Status status = setLimit(run); !status.ok())
    return status;
  auto parted = std::mismatch(talk.held.begin(), talk.held.end(),
                              run.prompt.begin(), run.prompt.end());
  // If all ids are held, the last one is fed again: its logits are needed.
  auto shared =
      std::min<size_t>(parted.first - talk.held.begin(), run.prompt.size() - 1);
  talk.held.resize(shared);
  return run.session->rewind(static_cast<int64_t>(shared));
}

/// The text of the generated ids, without the id or the string that ended it.
static Result<std::string> replyText(const Run &run) {
  TextStream stream(*run.tokenizer);
  if (Status status = stream.stopAt(stopStrings(run), run.prompt); !status.ok())
    return status;
  std::string text;
  for (int32_t id : run.generated) {
    if (run.generation.ends(id)) // the last one
      break;
    Result<std::string> piece = stream.push(id);
    if (!piece.ok())
      return piece;
    text += *piece;
  }
  Result<std::string> rest = stream.finish();
  return rest.ok() ? text + *rest : rest;
}

/// Prints the reply to `message`. A reply that a signal stopped counts as far
/// as it was printed.
static Status reply(Run &run, Conversation &talk, std::string message) {
  talk.say("user", std::move(message));
  Status status = encodeConversation(run, talk);
  if (status.code() == CRIA_OUT_OF_RANGE) {
    if (run.isFirst())
      fprintf(stderr, "cria-run: %s: /reset starts again\n",
              status.message().c_str());
    talk.messages.erase(talk.messages.size() - 1);
    return Status();
  }
  if (!status.ok())
    return status;
  run.generated.clear();
  status = agree(run);
  if (status.ok())
    status = runPrompt(run);
  talk.held = run.prompt;
  talk.held.insert(talk.held.end(), run.generated.begin(), run.generated.end());
  talk.held.resize(static_cast<size_t>(run.session->position()));
  Result<std::string> text = replyText(run);
  if (!text.ok())
    return text.status();
  talk.say("assistant", std::move(*text));
  ++*run.options.seed; // the next reply is another draw
  if (caughtSignal() == SIGINT) {
    forgetSignal();
    run.session->resume();
    status = Status();
  }
  return status.ok() ? writeOut("\n") : status;
}

Status runChat(Run &run) {
  if (!run.tokenizer)
    return Status(CRIA_NOT_FOUND,
                  run.options.weights + "/tokenizer.json is missing");
  Result<chat::Template> form = chat::Template::load(run.options.weights);
  if (!form.ok())
    return form.status();
  Conversation talk{std::move(*form), {}, {}};
  restart(run, talk);
  bool terminal = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
  Result<Lines> lines = Lines::open("-");
  std::string line;
  for (;;) {
    if (terminal)
      fputs("> ", stderr);
    Result<bool> found = readLine(run, *lines, line);
    if (!found.ok() || !*found)
      return found.status();
    if (line == "/exit")
      break;
    if (line == "/reset")
      restart(run, talk);
    else if (findInvalidUtf8(line) != line.npos) {
      if (run.isFirst())
        fprintf(stderr, "cria-run: the message is not UTF-8\n");
    } else if (!line.empty())
      if (Status status = reply(run, talk, line); !status.ok())
        return status;
  }
  return Status();
}

} // namespace cria
