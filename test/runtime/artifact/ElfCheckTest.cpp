#include "runtime/artifact/ElfCheck.h"

#include "runtime/Abi.h"
#include "runtime/artifact/Artifact.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <filesystem>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>

using namespace cria;
using namespace cria::test;

namespace {

/// An artifact whose object has `data`, linked with `flags`.
std::string objectOf(const std::string &data, const std::string &flags) {
  return artifactOf(fakeManifest(), data, flags);
}

Status check(const std::string &object) {
  return checkElf(object, "x.cria").status();
}

template <typename T> T &at(std::string &object, uint64_t offset) {
  return *reinterpret_cast<T *>(&object[offset]);
}

Elf64_Phdr &segment(std::string &object, uint32_t type, int which = 0) {
  auto &header = at<Elf64_Ehdr>(object, 0);
  for (int i = 0; i < header.e_phnum; ++i) {
    auto &found =
        at<Elf64_Phdr>(object, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (found.p_type == type && which-- == 0)
      return found;
  }
  throw std::runtime_error("the fake object lacks a segment");
}

/// The entry of the dynamic section.
Elf64_Dyn &entry(std::string &object, int64_t tag) {
  Elf64_Phdr dynamic = segment(object, PT_DYNAMIC);
  for (uint64_t i = 0; i < dynamic.p_filesz; i += sizeof(Elf64_Dyn))
    if (auto &found = at<Elf64_Dyn>(object, dynamic.p_offset + i);
        found.d_tag == tag)
      return found;
  throw std::runtime_error("the fake object lacks an entry");
}

/// C that calls a function and moves data that is relocated.
const char plainData[] = R"(void *memcpy(void *, const void *, unsigned long);
void copy(char *to, const char *from, unsigned long size) {
  memcpy(to, from, size);
}
static int first() { return 1; }
static int second() { return 2; }
static int (*const table[])() = {first, second};
int call(int i) { return table[i](); })";

} // namespace

TEST(ElfCheck, FindsWhatAnObjectExports) {
  std::string object = objectOf(plainData, "");
  auto symbols = checkElf(object, "x.cria");
  ASSERT_TRUE(symbols.ok()) << symbols.status().message();
  std::vector<std::string> names;
  for (const ExportedSymbol &symbol : *symbols) {
    EXPECT_TRUE(symbol.isCode) << symbol.name;
    EXPECT_LE(symbol.offset + symbol.size, object.size());
    names.emplace_back(symbol.name);
  }
  EXPECT_THAT(names,
              testing::UnorderedElementsAre(
                  "fake_prefill", "fake_decode", "fake_encode", "fake_batch",
                  "fake_paged_prefill", "fake_states_batch",
                  "fake_states_prefill", "fake_rotating", "copy", "call"));
}

// What the linker makes of hostile or careless code.
TEST(ElfCheck, NamesWhatItRefuses) {
  struct Case {
    const char *data, *flags, *message;
  };
  const Case cases[] = {
      {"int x; __attribute__((constructor)) void run() { x = 1; }", "",
       "dynamic section has INIT_ARRAY"},
      {"int x; __attribute__((destructor)) void run() { x = 1; }", "",
       "dynamic section has FINI_ARRAY"},
      {"int x;", "-Wl,-init,fake_decode", "dynamic section has INIT,"},
      {"int x;", "-Wl,-fini,fake_decode", "dynamic section has FINI,"},
      {"int x;", "-Wl,--no-as-needed -lm",
       "dynamic section has NEEDED 'libm.so.6'"},
      {"int x;", "-Wl,--disable-new-dtags,-rpath,/tmp/evil",
       "dynamic section has RPATH '/tmp/evil'"},
      {"int x;", "-Wl,--enable-new-dtags,-rpath,/tmp/evil",
       "dynamic section has RUNPATH '/tmp/evil'"},
      {"int x;", "-Wl,--filter=libm.so.6",
       "dynamic section has FILTER 'libm.so.6'"},
      {"int x;", "-Wl,--auxiliary=libm.so.6",
       "dynamic section has AUXILIARY 'libm.so.6'"},
      {"int x;", "-Wl,--audit=libm.so.6",
       "dynamic section has AUDIT 'libm.so.6'"},
      {"int x;", "-Wl,--depaudit=libm.so.6",
       "dynamic section has DEPAUDIT 'libm.so.6'"},
      {"int x;", "-Wl,-soname,libcuda.so.1",
       "has SONAME 'libcuda.so.1', expected 'cria'"},
      {"int x;", "-Wl,-z,nodelete", "has the flags 0 and 8"},
      {"int x;", "-Wl,-z,execstack", "asks for an executable stack"},
      {"int x; asm(\".text; movabs $fake_decode, %rax\");", "-Wl,-z,notext,-w",
       "dynamic section has TEXTREL"},
      {"void *find() { return nullptr; } "
       "int chosen() __attribute__((ifunc(\"find\")));",
       "", "symbol 'chosen' is an IFUNC"},
      {"int x; static void *find() { return nullptr; } "
       "static int chosen() __attribute__((ifunc(\"find\"))); "
       "int call() { return chosen(); }",
       "", "has a relocation IRELATIVE"},
      {"int system(const char *); int run() { return system(\"\"); }", "",
       "needs the symbol 'system', expected none but memcpy, memmove, memset"},
      {"int maybe() __attribute__((weak)); int run() { return maybe(); }", "",
       "needs the symbol 'maybe'"},
      // The loader would look for another of that name first.
      {"int x; int own = 1; int *get() { return &own; }", "",
       "looks up its own symbol 'own'"},
      {"int x; __thread int y = 1; int get() { return y; }", "",
       "has a segment TLS"},
      {"int x; int y = 1; asm(\".type y, @gnu_unique_object\");", "",
       "symbol 'y' has binding 10"},
      {"int x;", "-Wl,--hash-style=sysv", "dynamic section has HASH"},
      {"int x; int y[1 << 28];", "", "expected an end below 1073741824"},
  };
  for (const Case &bad : cases)
    EXPECT_THAT(check(objectOf(bad.data, bad.flags)),
                fails(CRIA_INVALID_ARGUMENT, bad.message))
        << bad.data << " " << bad.flags;
}

// What no linker makes.
TEST(ElfCheck, RefusesWhatIsPatched) {
  using Object = std::string &;
  struct Case {
    std::function<void(Object)> patch;
    const char *message;
  };
  const Case cases[] = {
      {[](Object o) { at<Elf64_Ehdr>(o, 0).e_machine = EM_386; },
       "not an ELF shared object for x86-64"},
      {[](Object o) { at<Elf64_Ehdr>(o, 0).e_type = ET_EXEC; },
       "not an ELF shared object for x86-64"},
      {[](Object o) { at<Elf64_Ehdr>(o, 0).e_phoff = UINT64_MAX - 8; },
       "program headers lie outside the file"},
      {[](Object o) { at<Elf64_Ehdr>(o, 0).e_phnum = 0xffff; },
       "65535 program headers of 56 bytes, expected 1 to 32 of 56"},
      {[](Object o) { segment(o, PT_GNU_STACK).p_type = PT_INTERP; },
       "has a segment INTERP"},
      {[](Object o) { segment(o, PT_GNU_STACK).p_type = PT_NULL; },
       "has a segment 0,"},
      {[](Object o) { segment(o, PT_LOAD).p_flags = PF_X; }, "cannot be read"},
      {[](Object o) { segment(o, PT_LOAD, 1).p_flags |= PF_W; },
       "is writable and executable"},
      {[](Object o) { segment(o, PT_LOAD, 1).p_offset = UINT64_MAX - 4095; },
       "lies outside the file"},
      {[](Object o) { segment(o, PT_LOAD, 1).p_filesz = UINT64_MAX; },
       "lies outside the file"},
      {[](Object o) { segment(o, PT_LOAD, 3).p_memsz = UINT64_MAX; },
       "expected an end below"},
      {[](Object o) { segment(o, PT_LOAD, 1).p_vaddr = 0; }, "overlaps"},
      {[](Object o) { segment(o, PT_LOAD, 1).p_vaddr += 8; }, "is not aligned"},
      {[](Object o) { segment(o, PT_LOAD, 1).p_align = 0; }, "is not aligned"},
      {[](Object o) { segment(o, PT_GNU_RELRO).p_vaddr += 1 << 20; },
       "segment GNU_RELRO lies outside the loaded segments"},
      {[](Object o) { segment(o, PT_DYNAMIC).p_offset -= 16; },
       "segment DYNAMIC lies outside the loaded segments"},
      {[](Object o) { segment(o, PT_DYNAMIC) = segment(o, PT_NOTE); },
       "has no dynamic section"},
      {[](Object o) {
         segment(o, PT_DYNAMIC).p_filesz = segment(o, PT_DYNAMIC).p_memsz = 16;
       },
       "its dynamic section has no end"},
      {[](Object o) {
         at<Elf64_Nhdr>(o, segment(o, PT_NOTE).p_offset).n_descsz = UINT32_MAX;
       },
       "has a note that is no build ID"},
      {[](Object o) { entry(o, DT_SYMENT).d_un.d_val = 1; },
       "has SYMENT 1, expected 24"},
      {[](Object o) { entry(o, DT_RELAENT).d_un.d_val = 0; },
       "has RELAENT 0, expected 24"},
      {[](Object o) { entry(o, DT_PLTREL).d_un.d_val = DT_REL; },
       "has PLTREL 17, expected 7"},
      {[](Object o) { entry(o, DT_RELA) = entry(o, DT_JMPREL); },
       "has JMPREL twice"},
      {[](Object o) { entry(o, DT_GNU_HASH).d_tag = 1234; },
       "dynamic section has 1234,"},
      {[](Object o) { entry(o, DT_RELA).d_un.d_ptr = 1 << 28; },
       "relocations lie outside the loaded segments"},
      {[](Object o) { // where they could be changed after the check
         entry(o, DT_RELA).d_un.d_ptr = segment(o, PT_GNU_RELRO).p_vaddr;
       },
       "relocations lie outside the loaded segments, or can be written"},
      {[](Object o) { entry(o, DT_RELASZ).d_un.d_val = UINT64_MAX; },
       "relocations lie outside the loaded segments"},
      {[](Object o) { entry(o, DT_RELACOUNT).d_un.d_val = 1 << 20; },
       "relocations lie outside the loaded segments"},
      {[](Object o) { entry(o, DT_STRSZ).d_un.d_val = UINT64_MAX; },
       "string table lies outside the loaded segments"},
      {[](Object o) { entry(o, DT_STRSZ).d_un.d_val -= 1; },
       "string table lies outside the loaded segments, can be written or has "
       "no"},
      {[](Object o) { entry(o, DT_SYMTAB).d_un.d_ptr = UINT64_MAX; },
       "symbol table of 12 symbols lies outside the loaded segments"},
  };
  const std::string plain = objectOf(plainData, "");
  ASSERT_TRUE(check(plain).ok()) << check(plain).message();
  for (const Case &bad : cases) {
    std::string object = plain;
    bad.patch(object);
    EXPECT_THAT(check(object), fails(CRIA_INVALID_ARGUMENT, bad.message));
  }
}

TEST(ElfCheck, RefusesHostileTables) {
  const std::string plain = objectOf(plainData, "");
  auto patched = [&](int64_t tag, uint64_t offset, auto value) {
    std::string object = plain; // tables lie in the segment at address 0
    at<decltype(value)>(object, entry(object, tag).d_un.d_ptr + offset) = value;
    return check(object);
  };
  auto refuses = [](const char *message) {
    return fails(CRIA_INVALID_ARGUMENT, message);
  };
  auto notWhole = refuses("its table GNU_HASH is not whole");
  for (uint32_t value : {0u, UINT32_MAX}) {
    EXPECT_THAT(patched(DT_GNU_HASH, 0, value), notWhole); // buckets
    EXPECT_THAT(patched(DT_GNU_HASH, 8, value), notWhole); // bloom words
  }
  EXPECT_THAT(patched(DT_GNU_HASH, 4, 0u), notWhole);          // first symbol
  EXPECT_THAT(patched(DT_GNU_HASH, 12, 64u), notWhole);        // shift
  EXPECT_THAT(patched(DT_GNU_HASH, 24, UINT32_MAX), notWhole); // a bucket
  uint64_t second = 2 * sizeof(Elf64_Sym);
  EXPECT_THAT(patched(DT_SYMTAB, second, UINT32_MAX),
              refuses("has a symbol without a name"));
  EXPECT_THAT(
      patched(DT_SYMTAB, second + offsetof(Elf64_Sym, st_value), UINT64_MAX),
      refuses("lies outside the file"));
  EXPECT_THAT(
      patched(DT_SYMTAB, second + offsetof(Elf64_Sym, st_size), UINT64_MAX),
      refuses("lies outside the file"));
  EXPECT_THAT(
      patched(DT_SYMTAB, second + offsetof(Elf64_Sym, st_value), uint64_t(0)),
      refuses("cannot be executed"));
  std::string object = plain;
  uint64_t dynamic = segment(object, PT_DYNAMIC).p_vaddr;
  EXPECT_THAT(patched(DT_RELA, 0, UINT64_MAX - 3),
              refuses("where no data of it lies"));
  EXPECT_THAT(patched(DT_RELA, 0, uint64_t(0)),
              refuses("where no data of it lies")); // cannot be written
  EXPECT_THAT(patched(DT_RELA, 0, dynamic - 7),
              refuses("where no data of it lies"));
  EXPECT_THAT(patched(DT_JMPREL, 8, ELF64_R_INFO(1000, R_X86_64_JUMP_SLOT)),
              refuses("has a relocation for symbol 1000 of"));
  EXPECT_THAT(patched(DT_JMPREL, 8, ELF64_R_INFO(0, R_X86_64_IRELATIVE)),
              refuses("has a relocation IRELATIVE"));
  EXPECT_THAT(patched(DT_RELA, 8, ELF64_R_INFO(1, R_X86_64_64)),
              refuses("fewer RELATIVE relocations than RELACOUNT, 2"));
}

// A refused artifact has not run, and neither has one that is only inspected.
TEST(ElfCheck, RefusedCodeDoesNotRun) {
  TemporaryFolder folder;
  std::string trace = folder.path("trace");
  std::string data = "const char trace[] = \"" + trace + R"(";
    __attribute__((constructor)) void run() {
      long result; // creat(trace, 0600)
      asm volatile("syscall" : "=a"(result) : "0"(85l), "D"(trace), "S"(0600l)
                   : "rcx", "r11", "memory");
    })";
  std::string path = folder.write("x.cria", objectOf(data, ""));
  EXPECT_TRUE(Artifact::inspect(path).ok());
  EXPECT_THAT(Artifact::open(path).status(),
              fails(CRIA_INVALID_ARGUMENT,
                    path + ": its dynamic section has INIT_ARRAY"));
  EXPECT_FALSE(std::filesystem::exists(trace));
  // It would have run.
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_TRUE(std::filesystem::exists(trace));
  dlclose(library);
}

// Whatever a bit of the object is turned to, it is refused, or the loader does
// not mind. Loads in a process of its own.
TEST(ElfCheck, TheLoaderLivesWithWhatPasses) {
  const std::string plain = objectOf(plainData, "");
  std::string object = plain;
  Elf64_Phdr dynamic = segment(object, PT_DYNAMIC);
  uint64_t tables = segment(object, PT_LOAD).p_filesz;
  TemporaryFolder folder;
  int loaded = 0;
  for (uint64_t bit = 0; bit < plain.size() * 8; bit += 13) {
    uint64_t byte = bit / 8;
    if (byte >= tables && (byte < dynamic.p_offset ||
                           byte >= dynamic.p_offset + dynamic.p_filesz))
      continue; // code and data
    object = plain;
    object[byte] = static_cast<char>(object[byte] ^ 1 << bit % 8);
    if (!check(object).ok())
      continue;
    std::string path = folder.write("x.so", object);
    pid_t child = fork();
    if (child == 0) {
      void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      _exit(library && dlclose(library) != 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "bit " << bit;
    ++loaded;
  }
  EXPECT_GT(loaded, 0);
}
