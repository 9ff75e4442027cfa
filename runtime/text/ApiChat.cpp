#include "runtime/text/Handles.h"

#include "runtime/text/chat/Prompt.h"

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

cria_status cria_chat_render(const cria_chat *chat, const char *variables,
                             char **text, cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(chat, "chat"), notNull(variables, "variables"),
               notNull(text, "text")});
    if (!status.ok())
      return status;
    *text = nullptr;
    Result<std::string> rendered = chat->object.render(variables);
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
    return copyIds(chat::encode(chat->object, *tokenizer->object, variables),
                   ids, count);
  });
}
