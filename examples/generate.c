/* Generates text with the C API of Cria.
 *
 *   cc -Iruntime examples/generate.c -Lbuild/lib -lcria -lcria-text -o generate
 *   ./generate OUT.cria MODEL-FOLDER "Once upon a time" 100
 */
#include "cria.h"
#include "cria_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything there is to free. */
struct program {
  cria_artifact *artifact;
  cria_model *model;
  cria_session *session;
  cria_tokenizer *tokenizer;
  cria_stream *stream;
  cria_generation *generation;
  cria_sampler *sampler;
  int32_t *ids;
};

/* Opens the artifact and the model's folder. */
static cria_status load(struct program *p, const char *artifact,
                        const char *folder, cria_error *error) {
  char path[4096];
  cria_artifact_info info;
  cria_sampler_options options;
  CRIA_INIT(&info);
  CRIA_INIT(&options);
  snprintf(path, sizeof(path), "%s/tokenizer.json", folder);
  if (cria_artifact_open(artifact, &p->artifact, error) ||
      cria_artifact_get_info(p->artifact, &info, error) ||
      cria_model_bind(p->artifact, folder, &p->model, error) ||
      cria_session_create(p->model, NULL, &p->session, error) ||
      cria_tokenizer_open(path, &p->tokenizer, error) ||
      cria_stream_create(p->tokenizer, 0, &p->stream, error) ||
      cria_generation_open(folder, &p->generation, error) ||
      cria_generation_options(p->generation, &options, error) ||
      cria_sampler_create(&options, info.vocab_size, &p->sampler, error))
    return error->status;
  return CRIA_OK;
}

/* Prints the text that `id` completes. */
static cria_status show(struct program *p, int32_t id, cria_error *error) {
  const char *text;
  if (cria_stream_push(p->stream, id, &text, error))
    return error->status;
  fputs(text, stdout);
  fflush(stdout);
  return CRIA_OK;
}

/* Prints `prompt` and its continuation, at most `most` tokens of it. */
static cria_status generate(struct program *p, const char *prompt, long most,
                            cria_error *error) {
  size_t count, i;
  const char *text;
  if (cria_tokenizer_encode(p->tokenizer, prompt, strlen(prompt), 1, &p->ids,
                            &count, error))
    return error->status;
  if (cria_sampler_accept_prompt(p->sampler, p->ids, count, error))
    return error->status;
  for (i = 0; i < count; ++i)
    if (show(p, p->ids[i], error))
      return error->status;
  /* First the whole prompt, then each id that was drawn. */
  for (; most > 0; --most, count = 1) {
    int32_t id;
    if (cria_session_draw(p->session, p->ids, count, p->sampler, &id, error) ||
        cria_sampler_accept(p->sampler, id, error))
      return error->status;
    if (cria_generation_ends(p->generation, id))
      break;
    p->ids[0] = id;
    if (show(p, id, error))
      return error->status;
  }
  if (cria_stream_finish(p->stream, &text, error))
    return error->status;
  puts(text);
  return CRIA_OK;
}

int main(int argc, char **argv) {
  struct program program = {0};
  cria_error error;
  cria_status status;
  CRIA_INIT(&error);
  if (argc != 5) {
    fprintf(stderr, "usage: generate OUT.cria MODEL-FOLDER PROMPT TOKENS\n");
    return 2;
  }
  status = load(&program, argv[1], argv[2], &error);
  if (status == CRIA_OK)
    status = generate(&program, argv[3], strtol(argv[4], NULL, 10), &error);
  if (status != CRIA_OK)
    fprintf(stderr, "generate: error: %s: %s\n", cria_status_name(status),
            error.message);
  free(program.ids);
  cria_sampler_free(&program.sampler);
  cria_generation_free(&program.generation);
  cria_stream_free(&program.stream);
  cria_tokenizer_free(&program.tokenizer);
  cria_session_free(&program.session);
  cria_model_free(&program.model);
  cria_artifact_free(&program.artifact);
  return status != CRIA_OK;
}
