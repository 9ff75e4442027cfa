/// A conversation in the terminal. The chat template renders each message with
/// all earlier ones, and the text is encoded; special tokens that a message
/// spells stay text. The session keeps the part of these ids that it already
/// holds: it is rewound to the first difference, and only the rest is fed. A
/// template may change earlier text; for example, it may leave out the part of
/// a reply before "</think>".
#include "tools/run/LineEditor.h"
#include "tools/run/Process.h"
#include "tools/run/Run.h"

#include "runtime/base/Json.h"
#include "runtime/base/files/File.h"
#include "runtime/base/files/OutputFile.h"
#include "runtime/text/chat/Prompt.h"
#include "runtime/text/tokenizer/Text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <string>
#include <unistd.h>
#include <utility>

namespace cria {

using json = nlohmann::ordered_json;

namespace {

/// A template and the messages so far. A message with images has their number.
struct Conversation {
  chat::Template form;
  json messages;
  std::vector<int32_t> held; // ids in the session's cache
  size_t images = 0;         // of the user's next message

  void say(const char *role, std::string text) {
    messages.push_back({{"role", role}, {"content", std::move(text)}});
  }
  void sayAsUser(std::string text) {
    say("user", std::move(text));
    if (size_t count = std::exchange(images, 0))
      messages.back()["images"] = count;
  }
};

} // namespace

/// Says something that is no part of the conversation.
static void tell(const Run &run, const std::string &line) {
  if (run.isFirst())
    fprintf(stderr, "cria-run: %s\n", line.c_str());
}

static size_t imagesOf(const json &message) {
  return message.value("images", size_t(0));
}

/// Keeps the images of --image alone, for the user's first message. What the
/// session holds of others is none of these.
static void restoreImages(Run &run, Conversation &talk) {
  if (run.images.rows.size() > run.options.images.size())
    talk.held.clear();
  run.images.rows.resize(run.options.images.size());
  talk.images = run.images.rows.size();
}

static void restart(Run &run, Conversation &talk) {
  restoreImages(run, talk);
  talk.messages = json::array();
  if (!run.options.system.empty())
    talk.say("system", run.options.system);
}

/// The messages as templates of models with images read them: a text is a part
/// of a message, and so is each image before it.
static json inParts(const json &messages) {
  json all = json::array();
  for (const json &message : messages) {
    json parts = json::array();
    for (size_t i = 0; i < imagesOf(message); ++i)
      parts.push_back({{"type", "image"}});
    parts.push_back({{"type", "text"}, {"text", message["content"]}});
    all.push_back({{"role", message["role"]}, {"content", parts}});
  }
  return all;
}

/// Puts the begin token in front of the prompt if the tokenizer has one for
/// texts and the template does not write it, as transformers' processors do;
/// its tokenizers leave that to the template.
static Status begin(Run &run) {
  Result<std::vector<int32_t>> ids = run.tokenizer->encode("");
  if (ids.ok() && !ids->empty() && run.prompt[0] != ids->front())
    run.prompt.insert(run.prompt.begin(), ids->front());
  return ids.status();
}

/// Makes the conversation the prompt. The session keeps as much of it as it
/// can.
static Status encodeConversation(Run &run, Conversation &talk) {
  bool hasParts = run.imageModel;
  json variables = {
      {"messages", hasParts ? inParts(talk.messages) : talk.messages},
      {"add_generation_prompt", true}};
  Result<std::vector<int32_t>> ids =
      chat::encode(talk.form, *run.tokenizer, variables.dump());
  if (!ids.ok())
    return ids.status();
  run.prompt = std::move(*ids);
  if (run.prompt.empty())
    return Status(CRIA_INVALID_ARGUMENT, "the chat template renders nothing");
  if (Status status = hasParts ? begin(run) : Status(); !status.ok())
    return status;
  if (Status status = placeImages(run); !status.ok())
    return status;
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

/// What a reply cost, for a person.
static void printSpeed(const Run &run, double seconds) {
  if (run.talks() && isatty(STDERR_FILENO) && seconds > 0)
    fprintf(stderr, "[%zu tokens, %.1f tokens/s]\n", run.generated.size(),
            static_cast<double>(run.generated.size()) / seconds);
}

/// Whether the chat goes on although its conversation makes no prompt: a
/// shorter one may, or one without a message that was loaded. A template that
/// refuses the first message refuses all.
static bool mayGoOn(const json &messages, const Status &status) {
  return status.code() == CRIA_OUT_OF_RANGE ||
         (status.code() == CRIA_INVALID_ARGUMENT &&
          std::any_of(
              messages.begin(), messages.end() - 1,
              [](const json &message) { return message["role"] != "system"; }));
}

/// Prints the reply to `message`. A reply that a signal or the grammar stopped
/// counts as far as it was printed.
static Status reply(Run &run, Conversation &talk, std::string message) {
  talk.sayAsUser(std::move(message));
  Status status = encodeConversation(run, talk);
  if (!status.ok() && mayGoOn(talk.messages, status)) {
    tell(run, status.message() +
                  ": /drop forgets the oldest message and its reply, /reset "
                  "starts again");
    talk.images = imagesOf(talk.messages.back());
    talk.messages.erase(talk.messages.size() - 1);
    return Status();
  }
  if (!status.ok())
    return status;
  run.generated.clear();
  status = agree(run);
  double begin = now();
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
  Status stopped; // by the grammar
  if (std::exchange(run.grammarFailed, false))
    std::swap(stopped, status);
  if (status.ok())
    status = writeOut("\n");
  if (status.ok())
    printSpeed(run, now() - begin);
  if (!stopped.ok())
    tell(run, stopped.message());
  return status;
}

// ---- Commands --------------------------------------------------------------

/// Forgets the oldest message and what follows it, up to the next message of
/// the user, which then has the images.
static Status dropOldest(Run &run, Conversation &talk, const std::string &) {
  json &all = talk.messages;
  auto isUser = [](const json &message) { return message["role"] == "user"; };
  auto first = std::find_if(all.begin(), all.end(), isUser);
  if (first == all.end())
    return Status(CRIA_FAILED_PRECONDITION, "there is no message");
  size_t images = imagesOf(*first);
  auto next = all.erase(first, std::find_if(first + 1, all.end(), isUser));
  if (next == all.end())
    talk.images += images;
  else if (images)
    (*next)["images"] = images + imagesOf(*next);
  tell(run, std::to_string(all.size()) + " messages and replies are left");
  return Status();
}

static Status reset(Run &run, Conversation &talk, const std::string &) {
  restart(run, talk);
  return Status();
}

static Status setSystem(Run &run, Conversation &talk, const std::string &text) {
  run.options.system = text;
  restart(run, talk);
  return Status();
}

static Status save(Run &run, Conversation &talk, const std::string &path) {
  if (!run.isFirst())
    return Status();
  json messages = talk.messages;
  for (json &message : messages)
    message.erase("images");
  std::string text = messages.dump(2) + "\n";
  OutputFile file(path);
  file.write(text.data(), text.size());
  file.commit();
  return statusOf(file);
}

static Status load(Run &run, Conversation &talk, const std::string &path) {
  Result<JsonDocument> document = readJson(path);
  if (!document.ok())
    return document.status();
  Status status;
  JsonCursor root(document->root(), path, status);
  json messages = json::array();
  for (const JsonCursor &message : root.elements()) {
    onlyKeys(message, {"role", "content"});
    messages.push_back({{"role", message["role"].string()},
                        {"content", message["content"].string()}});
  }
  if (!status.ok())
    return status;
  restoreImages(run, talk);
  for (json &message : messages)
    if (talk.images && message["role"] == "user")
      message["images"] = std::exchange(talk.images, 0);
  talk.messages = std::move(messages);
  tell(run, std::to_string(talk.messages.size()) + " messages and replies");
  return Status();
}

static Status addImage(Run &run, Conversation &talk, const std::string &path) {
  Status status = cria::addImage(run, path);
  talk.images += status.ok();
  return status;
}

/// Sets `option` from `text`, if it is a number of its type.
template <typename Number>
static bool setNumber(std::optional<Number> &option, const std::string &text) {
  Number number = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end)
    return false;
  option = number;
  return true;
}

// What /set changes, by the names of the command line.
static constexpr std::pair<const char *, std::optional<double> RunOptions::*>
    numbers[] = {{"temperature", &RunOptions::temperature},
                 {"top-p", &RunOptions::topP},
                 {"min-p", &RunOptions::minP},
                 {"repetition-penalty", &RunOptions::repetitionPenalty},
                 {"presence-penalty", &RunOptions::presencePenalty},
                 {"frequency-penalty", &RunOptions::frequencyPenalty}};
static constexpr std::pair<const char *, std::optional<int64_t> RunOptions::*>
    counts[] = {{"top-k", &RunOptions::topK},
                {"penalty-window", &RunOptions::penaltyWindow},
                {"max-tokens", &RunOptions::maxTokens}};

/// Sets an option of the command line: "temperature=0.7".
static Status setOption(Run &run, Conversation &, const std::string &text) {
  size_t equals = std::min(text.find('='), text.size());
  std::string name = text.substr(0, equals),
              value = text.substr(std::min(equals + 1, text.size()));
  RunOptions changed = run.options;
  bool isSet = name == "seed" && setNumber(changed.seed, value);
  std::string names = "seed";
  auto setOneOf = [&](const auto &settings) {
    for (auto [known, member] : settings) {
      isSet |= name == known && setNumber(changed.*member, value);
      names += std::string(", ") + known;
    }
  };
  setOneOf(numbers);
  setOneOf(counts);
  if (!isSet || changed.maxTokens.value_or(0) < 0)
    return Status(CRIA_INVALID_ARGUMENT, quote(text) +
                                             ": expected a number for one of " +
                                             names + ": /set temperature=0.7");
  if (Status status = checkOptions(changed); !status.ok())
    return status;
  run.options = std::move(changed);
  return Status();
}

static Status help(Run &run, Conversation &talk, const std::string &);

namespace {
struct Command {
  const char *name, *argument; // null: it takes none
  const char *does;
  Status (*run)(Run &run, Conversation &talk, const std::string &argument);
};
} // namespace

static const Command commands[] = {
    {"/help", nullptr, "prints these lines", help},
    {"/reset", nullptr, "forgets all but the system message", reset},
    {"/drop", nullptr, "forgets the oldest message and its reply", dropOldest},
    {"/system", "TEXT", "starts again with another system message", setSystem},
    {"/set", "OPTION=NUMBER", "sets temperature, top-k, ... from now on",
     setOption},
    {"/image", "FILE", "shows an image with the next message", addImage},
    {"/save", "FILE", "writes the conversation", save},
    {"/load", "FILE", "goes on with a conversation that /save wrote", load},
};

static Status help(Run &run, Conversation &, const std::string &) {
  for (const Command &command : commands)
    tell(run,
         std::string(command.name) +
             (command.argument ? std::string(" ") + command.argument : "") +
             ": " + command.does);
  tell(run, "/exit: ends, as the end of the input does. A message of several "
            "lines stands between lines of \"\"\". Ctrl-C stops a reply");
  return Status();
}

/// Runs the command in `line`. What is wrong with it does not end the chat.
static void runCommand(Run &run, Conversation &talk, const std::string &line) {
  size_t end = std::min(line.find(' '), line.size()),
         begin = std::min(line.find_first_not_of(' ', end), line.size());
  std::string name = line.substr(0, end), argument = line.substr(begin);
  argument.erase(argument.find_last_not_of(' ') + 1);
  const Command *command =
      std::find_if(std::begin(commands), std::end(commands),
                   [&](const Command &known) { return name == known.name; });
  if (command == std::end(commands))
    return tell(run, name + " is no command: /help lists them");
  if (!command->argument != argument.empty())
    return tell(run, name + (command->argument ? std::string(": expected ") +
                                                     command->argument
                                               : ": takes nothing after it"));
  if (Status status = command->run(run, talk, argument); !status.ok())
    tell(run, name + ": " + status.message());
}

// ---- Messages --------------------------------------------------------------

namespace {
/// What a person types, or a pipe brings.
class Input {
public:
  explicit Input(Run &run)
      : run(run), editor(run.ranks ? nullptr : LineEditor::open()),
        lines(std::move(*Lines::open("-"))),
        asks(isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) {}

  /// The next line, which may be a command; or the lines between two that have
  /// """, which are a message. False at the end.
  Result<bool> next(std::string &message, bool &isCommand) {
    Result<bool> found = nextLine("> ", message);
    isCommand = found.ok() && *found && message[0] == '/';
    if (!found.ok() || !*found || message != kMark)
      return found;
    message.clear();
    for (std::string line;;) {
      found = nextLine(". ", line);
      if (!found.ok() || (*found && line == kMark))
        return found;
      if (!*found)
        return Status(CRIA_INVALID_ARGUMENT,
                      "standard input ends in a message of several lines, "
                      "expected a line of \"\"\"");
      message += (message.empty() ? "" : "\n") + line;
      if (message.size() > kMostBytes)
        return Status(CRIA_INVALID_ARGUMENT,
                      "standard input: a message has more than " +
                          std::to_string(kMostBytes) + " bytes");
    }
  }

private:
  static constexpr const char *kMark = "\"\"\"";
  static constexpr size_t kMostBytes = 64u << 20;

  Result<bool> nextLine(const char *prompt, std::string &line) {
    if (editor)
      return editor->next(prompt, line);
    if (asks && run.isFirst())
      fputs(prompt, stderr);
    return readLine(run, lines, line);
  }

  Run &run;
  std::unique_ptr<LineEditor> editor;
  Lines lines;
  bool asks;
};
} // namespace

Status runChat(Run &run) {
  if (!run.tokenizer)
    return Status(CRIA_NOT_FOUND,
                  run.options.weights + "/tokenizer.json is missing");
  Result<chat::Template> form = chat::Template::load(run.options.weights);
  if (!form.ok())
    return form.status();
  Conversation talk{std::move(*form), {}, {}};
  restart(run, talk);
  if (isatty(STDIN_FILENO))
    tell(run, "/help lists the commands, /exit ends");
  Input input(run);
  bool isCommand = false;
  for (std::string message;;) {
    Result<bool> found = input.next(message, isCommand);
    if (!found.ok() || !*found || (isCommand && message == "/exit"))
      return found.status();
    if (findInvalidUtf8(message) != message.npos)
      tell(run, "the message is not UTF-8");
    else if (isCommand)
      runCommand(run, talk, message);
    else if (!message.empty())
      if (Status status = reply(run, talk, message); !status.ok())
        return status;
  }
}

} // namespace cria
