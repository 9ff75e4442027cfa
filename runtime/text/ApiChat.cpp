#include "runtime/text/Handles.h"

#include "runtime/text/chat/Prompt.h"

using namespace cria;

struct cria_chat {
  chat::Template object;
};

cria_status cria_chat_open(const char *folder, cria_chat **chat,
                           cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{folder, "folder"}, {chat, "chat"}});
    if (!status.ok())
      return status;
    *chat = nullptr;
    Result<chat::Template> loaded = chat::Template::load(folder);
    if (loaded.ok())
      *chat = new cria_chat{std::move(*loaded)};
    return loaded.status();
  });
}

cria_status cria_chat_parse(const char *source, size_t size, cria_chat **chat,
                            cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{source, "source"}, {chat, "chat"}});
    if (!status.ok())
      return status;
    *chat = nullptr;
    Result<chat::Template> parsed =
        chat::Template::parse({source, size}, "template in memory");
    if (parsed.ok())
      *chat = new cria_chat{std::move(*parsed)};
    return parsed.status();
  });
}

void cria_chat_free(cria_chat **chat) { freeHandle(chat); }

cria_status cria_chat_render(const cria_chat *chat, const char *variables,
                             char **text, cria_error *error) {
  return guarded(error, [&] {
    Status status =
        notNull({{chat, "chat"}, {variables, "variables"}, {text, "text"}});
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
    Status status = notNull({{chat, "chat"},
                             {tokenizer, "tokenizer"},
                             {variables, "variables"},
                             {ids, "ids"},
                             {count, "count"}});
    if (!status.ok())
      return status;
    *ids = nullptr;
    *count = 0;
    return copyIds(chat::encode(chat->object, *tokenizer->object, variables),
                   ids, count);
  });
}
