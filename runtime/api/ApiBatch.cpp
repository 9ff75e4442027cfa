#include "runtime/api/Handles.h"

using namespace cria;

cria_status cria_batch_create(const cria_model *model,
                              const cria_batch_options *options,
                              cria_batch **batch, cria_error *error) {
  return guarded(error, [&] {
    cria_batch_options given = {};
    Status status =
        first({notNull(model, "model"), notNull(batch, "batch"),
               options ? readStruct(options, "options", given) : Status()});
    if (!status.ok())
      return status;
    *batch = nullptr;
    BatchOptions asked;
    asked.threads = given.threads;
    asked.refuses = given.refuse != 0;
    asked.cacheBytes = given.cache_bytes;
    asked.pages = given.pages;
    asked.chunk = given.chunk;
    asked.reusesDrawn = given.reuse_drawn != 0;
    asked.draftRows = given.draft_rows;
    asked.texts = given.texts;
    asked.windowPages = given.window_pages;
    auto made = Batch::create(model->object, asked);
    if (made.ok())
      *batch = new cria_batch{std::move(*made)};
    return made.status();
  });
}

void cria_batch_free(cria_batch **batch) { freeHandle(batch); }

/// Reads the caller's options and adds the sequence that `make` returns for
/// them.
static cria_status
addSequence(const cria_batch *batch, const cria_sequence_options *options,
            int64_t *sequence, cria_error *error,
            FunctionRef<Result<int64_t>(const SequenceOptions &)> make) {
  return guarded(error, [&] {
    cria_sequence_options given = {};
    Status status =
        first({notNull(batch, "batch"), notNull(sequence, "sequence"),
               options ? readStruct(options, "options", given) : Status()});
    if (status.ok() && given.end_count)
      status = notNull(given.end_ids, "end_ids");
    if (!status.ok())
      return status;
    SequenceOptions asked;
    if (given.sampler)
      asked.sampler = given.sampler->object;
    if (given.end_count)
      asked.ends.assign(given.end_ids, given.end_ids + given.end_count);
    asked.wantsLogits = given.logits != 0;
    asked.wantsHidden = given.hidden != 0;
    if (given.lora)
      asked.loras = given.lora->object;
    if (given.salt < 0)
      return Status(CRIA_INVALID_ARGUMENT,
                    {"salt is ", int64_t(given.salt), ", expected 0 or more"});
    asked.salt = static_cast<uint32_t>(given.salt);
    Result<int64_t> number = make(asked);
    if (number.ok())
      *sequence = *number;
    return number.status();
  });
}

cria_status cria_batch_join(cria_batch *batch,
                            const cria_sequence_options *options,
                            int64_t *sequence, cria_error *error) {
  return addSequence(
      batch, options, sequence, error,
      [&](const SequenceOptions &asked) { return batch->object->join(asked); });
}

cria_status cria_batch_fork(cria_batch *batch, int64_t from,
                            const cria_sequence_options *options,
                            int64_t *sequence, cria_error *error) {
  return addSequence(batch, options, sequence, error,
                     [&](const SequenceOptions &asked) {
                       return batch->object->fork(from, asked);
                     });
}

cria_status cria_batch_leave(cria_batch *batch, int64_t sequence,
                             cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(batch, "batch");
    return status.ok() ? batch->object->leave(sequence) : status;
  });
}

cria_status cria_batch_feed(cria_batch *batch, int64_t sequence,
                            const int32_t *ids, size_t count, int64_t most,
                            cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(batch, "batch"), count ? notNull(ids, "ids") : Status(),
               checkCount(count, "count")});
    if (!status.ok())
      return status;
    return batch->object->feed(sequence, ids, static_cast<int64_t>(count),
                               most);
  });
}

cria_status cria_batch_propose(cria_batch *batch, int64_t sequence,
                               const int32_t *ids, size_t count,
                               const uint32_t *masks, size_t words,
                               cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(batch, "batch"), count ? notNull(ids, "ids") : Status(),
               checkCount(count, "count")});
    if (!status.ok())
      return status;
    return batch->object->propose(sequence, ids, static_cast<int64_t>(count),
                                  masks, words);
  });
}

cria_status cria_batch_step(cria_batch *batch, size_t *results,
                            size_t *unfinished, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(batch, "batch");
    if (!status.ok())
      return status;
    // A failed step has results of single sequences, too.
    struct Tell {
      const Batch &object;
      size_t *results, *unfinished;
      ~Tell() {
        if (results)
          *results = object.results().size();
        if (unfinished)
          *unfinished = object.unfinished();
      }
    } tell = {*batch->object, results, unfinished};
    return batch->object->step();
  });
}

cria_status cria_batch_get_result(const cria_batch *batch, size_t index,
                                  cria_batch_result *result,
                                  cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(batch, "batch");
    if (!status.ok())
      return status;
    const std::vector<BatchResult> &made = batch->object->results();
    if (index >= made.size())
      return Status(CRIA_OUT_OF_RANGE, {"result ", index, " of ", made.size()});
    cria_batch_result known = {};
    known.sequence = made[index].sequence;
    known.id = made[index].id;
    known.finish = static_cast<int32_t>(made[index].finish);
    known.status = made[index].status.code();
    known.message = made[index].status.message().c_str();
    known.logits = made[index].logits;
    known.hidden = made[index].hidden;
    known.hidden_rows = static_cast<size_t>(made[index].hiddenRows);
    return writeStruct(known, result, "result");
  });
}

cria_status cria_batch_position(const cria_batch *batch, int64_t sequence,
                                int64_t *computed, int64_t *position,
                                cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(batch, "batch");
    if (!status.ok())
      return status;
    auto found = batch->object->sequence(sequence);
    if (found.ok() && computed)
      *computed = (*found)->computed;
    if (found.ok() && position)
      *position = (*found)->end();
    return found.status();
  });
}

cria_status cria_batch_get_sequence(const cria_batch *batch, int64_t sequence,
                                    cria_sequence_info *info,
                                    cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(batch, "batch");
    if (!status.ok())
      return status;
    auto found = batch->object->sequence(sequence);
    if (!found.ok())
      return found.status();
    cria_sequence_info known = {};
    known.computed = (*found)->computed;
    known.position = (*found)->end();
    known.reused = (*found)->reused;
    return writeStruct(known, info, "info");
  });
}

cria_status cria_batch_state_size(const cria_batch *batch, int64_t sequence,
                                  size_t *size, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{batch, "batch"}, {size, "size"}});
    if (!status.ok())
      return status;
    Result<uint64_t> bytes = batch->object->stateBytes(sequence);
    if (bytes.ok())
      *size = *bytes;
    return bytes.status();
  });
}

cria_status cria_batch_save(const cria_batch *batch, int64_t sequence,
                            void *state, size_t capacity, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{batch, "batch"}, {state, "state"}});
    if (!status.ok())
      return status;
    Result<uint64_t> size = batch->object->stateBytes(sequence);
    if (!size.ok())
      return size.status();
    if (capacity < *size)
      return Status(CRIA_INVALID_ARGUMENT,
                    {"capacity is ", capacity, " bytes, expected ", *size});
    return batch->object->save(sequence, static_cast<std::byte *>(state));
  });
}

cria_status cria_batch_restore(cria_batch *batch, int64_t sequence,
                               const void *state, size_t size,
                               cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{batch, "batch"}, {state, "state"}});
    if (!status.ok())
      return status;
    return batch->object->restore(sequence,
                                  static_cast<const std::byte *>(state), size);
  });
}

cria_status cria_batch_get_info(const cria_batch *batch, cria_batch_info *info,
                                cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(batch, "batch");
    if (!status.ok())
      return status;
    const Batch &object = *batch->object;
    const Manifest &manifest = object.model().manifest();
    const BatchCounts &counts = object.counts();
    cria_batch_info known = {};
    known.rows = manifest.batch->rows;
    known.page = manifest.batch->page;
    known.page_bytes = manifest.pageBytes(PageKind::Whole);
    known.pages = object.pages().pages();
    known.free_pages = object.pages().available();
    known.kept_pages = object.pages().keptPages();
    known.running = static_cast<int64_t>(object.runningCount());
    known.waiting = static_cast<int64_t>(object.waitingCount());
    known.prefilled = counts.prefilled;
    known.decoded = counts.decoded;
    known.recomputed = counts.recomputed;
    known.reused = counts.reused;
    known.put_back = counts.putBack;
    known.drafted = counts.drafted;
    known.accepted = counts.accepted;
    known.texts = object.texts();
    const PagePool &windows = object.windowPages();
    known.window_page_bytes = manifest.pageBytes(PageKind::Window);
    known.window_pages = windows.pages();
    known.free_window_pages = windows.available();
    known.kept_window_pages = windows.keptPages();
    return writeStruct(known, info, "info");
  });
}
