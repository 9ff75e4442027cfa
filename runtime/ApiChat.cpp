#include "runtime/Api.h"

#include "runtime/Json.h"
#include "runtime/chat/Prompt.h"

using namespace cria;

struct cria_chat {
  chat::Template object;
};

cria_status cria_chat_open(const char *folder, cria_chat **chat,
                           cria_error *error) {
  return guarded(error, [&] {
    Status status = first({notNull(folder, "folder"), notNull(chat, "chat")});
    if (!status.ok())
      return status;
    *chat = nullptr;
    Result<chat::Template> loaded = chat::Template::load(folder);
    if (loaded.ok())
      *chat = new cria_chat{std::move(*loaded)};
    return loaded.status();
  });
}

void cria_chat_free(cria_chat **chat) { freeHandle(chat); }

/// The object that `variables` is. Parsed once for the bounds, once for the
/// order of members.
static Result<nlohmann::ordered_json> readVariables(const char *variables) {
  Result<JsonDocument> checked = parseJson(variables, "variables");
  if (!checked.ok())
    return checked.status();
  if (!checked->root().is_object())
    return Status(CRIA_INVALID_ARGUMENT, "variables: expected an object");
  return nlohmann::ordered_json::parse(variables);
}

cria_status cria_chat_render(const cria_chat *chat, const char *variables,
                             char **text, cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(chat, "chat"), notNull(variables, "variables"),
               notNull(text, "text")});
    if (!status.ok())
      return status;
    *text = nullptr;
    Result<nlohmann::ordered_json> read = readVariables(variables);
    if (!read.ok())
      return read.status();
    Result<std::string> rendered = chat->object.render(*read);
    if (rendered.ok())
      *text =
          static_cast<char *>(copyOut(rendered->c_str(), rendered->size() + 1));
    return rendered.status();
  });
}

cria_status cria_chat_encode(const cria_chat *chat,
                             const cria_tokenizer *tokenizer,
                             const char *variables, int32_t **ids,
                             size_t *count, cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(chat, "chat"), notNull(tokenizer, "tokenizer"),
               notNull(variables, "variables"), notNull(ids, "ids"),
               notNull(count, "count")});
    if (!status.ok())
      return status;
    *ids = nullptr;
    *count = 0;
    Result<nlohmann::ordered_json> read = readVariables(variables);
    if (!read.ok())
      return read.status();
    return copyIds(chat::encode(chat->object, *tokenizer->object, *read), ids,
                   count);
  });
}
