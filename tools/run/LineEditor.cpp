#include "tools/run/LineEditor.h"

#include "runtime/base/files/File.h"
#include "tools/run/Process.h"

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <dlfcn.h>
#include <unistd.h>

namespace cria {

// What histedit.h of libedit 3.1 declares; libedit.so.2 has this ABI.
struct EditLine;
struct EditHistory; // History there
struct HistEvent {
  int num;
  const char *str;
};
enum { EL_PROMPT = 0, EL_EDITOR = 2, EL_SIGNAL = 3, EL_BIND = 4 };
enum { EL_ADDFN = 9, EL_HIST = 10 };
enum { H_SETSIZE = 1, H_ENTER = 10, H_SETUNIQUE = 20 };
enum : unsigned char { CC_EOF = 2, CC_REFRESH = 4 };

static constexpr int kHistoryLines = 1000;
// A terminal puts pasted text between two marks, if it is asked to.
static constexpr const char *kBeginPaste = "\033[200~",
                            *kEndPaste = "\033[201~",
                            *kMarkPastes = "\033[?2004h",
                            *kMarkNoPastes = "\033[?2004l";

/// The functions of libedit, and what they made.
struct LineEditor::Library {
  void *handle = nullptr;
  EditLine *(*el_init)(const char *, FILE *, FILE *, FILE *);
  void (*el_end)(EditLine *);
  int (*el_set)(EditLine *, int, ...);
  const char *(*el_gets)(EditLine *, int *);
  int (*el_wgetc)(EditLine *, wchar_t *);
  int (*el_winsertstr)(EditLine *, const wchar_t *);
  EditHistory *(*history_init)();
  void (*history_end)(EditHistory *);
  int (*history)(EditHistory *, HistEvent *, int, ...);
  EditLine *editor = nullptr;
  EditHistory *lines = nullptr;
  std::string prompt;

  template <typename Function> bool find(Function *&to, const char *name) {
    to = reinterpret_cast<Function *>(dlsym(handle, name));
    return to;
  }

  bool open() {
    handle = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
    return handle && find(el_init, "el_init") && find(el_end, "el_end") &&
           find(el_set, "el_set") && find(el_gets, "el_gets") &&
           find(el_wgetc, "el_wgetc") && find(el_winsertstr, "el_winsertstr") &&
           find(history_init, "history_init") &&
           find(history_end, "history_end") && find(history, "history");
  }

  ~Library() {
    if (editor)
      el_end(editor);
    if (lines)
      history_end(lines);
    if (handle)
      dlclose(handle);
  }
};

/// The library of the editor, which functions of libedit call back. There is
/// one terminal, and so one editor.
static LineEditor::Library *current = nullptr;

static char *promptOf(EditLine *) { return current->prompt.data(); }

/// Inserts what comes up to the mark that ends a pasted text.
static unsigned char insertPaste(EditLine *editor, int) {
  const std::wstring end(kEndPaste, kEndPaste + 6);
  std::wstring text;
  for (wchar_t next; current->el_wgetc(editor, &next) == 1;) {
    text += next == L'\r' ? L'\n' : next;
    if (text.size() >= end.size() &&
        text.compare(text.size() - end.size(), end.size(), end) == 0) {
      text.resize(text.size() - end.size());
      current->el_winsertstr(editor, text.c_str());
      return CC_REFRESH;
    }
  }
  return CC_EOF;
}

std::unique_ptr<LineEditor> LineEditor::open() {
  auto library = std::make_unique<Library>();
  if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO) || !library->open())
    return nullptr;
  setlocale(LC_CTYPE, "");
  library->editor = library->el_init("cria-run", stdin, stderr, stderr);
  library->lines = library->history_init();
  if (!library->editor || !library->lines)
    return nullptr;
  HistEvent event;
  library->history(library->lines, &event, H_SETSIZE, kHistoryLines);
  library->history(library->lines, &event, H_SETUNIQUE, 1);
  EditLine *editor = library->editor;
  current = library.get();
  library->el_set(editor, EL_PROMPT, promptOf);
  library->el_set(editor, EL_SIGNAL, 1);
  library->el_set(editor, EL_HIST, library->history, library->lines);
  library->el_set(editor, EL_EDITOR, "emacs");
  library->el_set(editor, EL_ADDFN, "insert-paste", "Inserts pasted text.",
                  insertPaste);
  library->el_set(editor, EL_BIND, kBeginPaste, "insert-paste", nullptr);
  return std::unique_ptr<LineEditor>(new LineEditor(std::move(library)));
}

LineEditor::LineEditor(std::unique_ptr<Library> library)
    : library(std::move(library)) {}

LineEditor::~LineEditor() { current = nullptr; }

Result<bool> LineEditor::next(const std::string &prompt, std::string &line) {
  library->prompt = prompt;
  fputs(kMarkPastes, stderr);
  setLastWords(kMarkNoPastes);
  int count = 0;
  errno = 0;
  const char *text = library->el_gets(library->editor, &count);
  int error = errno;
  setLastWords(nullptr);
  fputs(kMarkNoPastes, stderr);
  if (!text && count < 0 && error != 0)
    return errnoStatus("standard input", "cannot read", error);
  if (!text || count <= 0)
    return false;
  line.assign(text, static_cast<size_t>(count));
  if (line.back() == '\n')
    line.pop_back();
  HistEvent event;
  if (!line.empty())
    library->history(library->lines, &event, H_ENTER, line.c_str());
  return true;
}

} // namespace cria
