#include "tools/plan/Html.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cria;
namespace json = llvm::json;

static constexpr unsigned char kHtml[] = {
#include "tools/plan/page.html.inc"
};
static constexpr unsigned char kCss[] = {
#include "tools/plan/page.css.inc"
};
static constexpr unsigned char kJs[] = {
#include "tools/plan/page.js.inc"
};

template <size_t size>
static llvm::StringRef textOf(const unsigned char (&bytes)[size]) {
  return {reinterpret_cast<const char *>(bytes), size};
}

/// The most lines that the page shows of a kernel at one phase.
static constexpr int kMostLines = 2000;

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

/// Escapes text for an element or an attribute. Names come from the user's
/// config, which may have any characters.
static std::string escape(llvm::StringRef text) {
  std::string result;
  for (char c : json::fixUTF8(text))
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    case '\'':
      result += "&#39;";
      break;
    default:
      result += c;
    }
  return result;
}

/// A number with three digits and a prefix: "36.9 k".
static std::string quantity(double number, const char *unit) {
  static constexpr const char *prefixes[] = {"", "k", "M", "G", "T", "P"};
  size_t prefix = 0;
  for (; number >= 999.5 && prefix + 1 < std::size(prefixes); ++prefix)
    number /= 1000;
  int digits = prefix == 0 || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
  std::string text =
      llvm::formatv("{0} {1}{2}", llvm::format("%.*f", digits, number),
                    prefixes[prefix], unit)
          .str();
  return llvm::StringRef(text).rtrim().str();
}

/// A number with three digits, or with three decimals below 1.
static std::string threeDigits(double number) {
  int digits = number >= 99.95 ? 0 : number >= 9.995 ? 1 : number >= 1 ? 2 : 3;
  return llvm::formatv("{0}", llvm::format("%.*f", digits, number)).str();
}

static std::string microseconds(double seconds) {
  return threeDigits(seconds * 1e6);
}

/// A cell of a table; numbers are aligned to the right.
static std::string cell(llvm::StringRef text) {
  return "<td>" + escape(text) + "</td>";
}
static std::string numberCell(llvm::StringRef text) {
  return "<td class=\"n\">" + escape(text) + "</td>";
}

/// The machine of the plan on which the kernels were measured: the one whose
/// name the device's name contains, or else the first.
static const Machine *measuredOn(const Page &page) {
  if (page.measured.kernels.empty() || page.plan.machines.empty())
    return nullptr;
  for (const Machine &machine : page.plan.machines)
    if (llvm::StringRef(page.measured.device).contains(machine.name))
      return &machine;
  return &page.plan.machines.front();
}

static const MeasuredKernel *measuredOf(const Page &page,
                                        const PlanKernel &kernel) {
  auto at = page.measured.kernels.find(kernel.function());
  return at == page.measured.kernels.end() ? nullptr : &at->second;
}

/// The measured time divided by the floor of the measured work; 0 if unknown.
static double overFloor(const Page &page, const PlanKernel &kernel) {
  const Machine *machine = measuredOn(page);
  const MeasuredKernel *own = measuredOf(page, kernel);
  if (!machine || !own)
    return 0;
  double floor =
      machine->floor(static_cast<int64_t>(own->bytes),
                     static_cast<int64_t>(own->operations), kernel.f32);
  return floor > 0 ? own->seconds / floor : 0;
}

static std::string kernelRow(const Page &page, const PlanKernel &kernel) {
  std::string row = "<tr data-kernel=\"" + escape(kernel.function()) +
                    "\"><th scope=\"row\">" + escape(kernel.function()) +
                    "</th>" + cell(kernel.path) +
                    numberCell(llvm::Twine(kernel.runs).str()) +
                    numberCell(quantity(double(kernel.runBytes), "B")) +
                    numberCell(quantity(double(kernel.runFlops), ""));
  double intensity =
      kernel.runBytes ? double(kernel.runFlops) / double(kernel.runBytes) : 0;
  row += numberCell(llvm::formatv("{0:F1}", intensity).str());
  for (const Machine &machine : page.plan.machines)
    row += numberCell(microseconds(
        machine.floor(kernel.runBytes, kernel.runFlops, kernel.f32)));
  if (page.measured.kernels.empty())
    return row + "</tr>\n";
  const MeasuredKernel *own = measuredOf(page, kernel);
  row += numberCell(own ? microseconds(own->seconds) : "–");
  double over = overFloor(page, kernel);
  row += numberCell(over > 0 ? threeDigits(over) : "–");
  return row + "</tr>\n";
}

namespace {
/// The sums over the kernels of an entry, all runs of a call together.
struct EntrySums {
  int64_t runs = 0, bytes = 0, flops = 0;
  std::vector<double> floors; // seconds on each machine
  double measured = 0, measuredFloor = 0;
  bool isMeasured = true; // all kernels are
};
} // namespace

static EntrySums sumsOf(const Page &page, llvm::StringRef entry) {
  EntrySums sums;
  sums.floors.resize(page.plan.machines.size());
  const Machine *machine = measuredOn(page);
  for (const PlanKernel &kernel : page.plan.kernels) {
    if (kernel.entry != entry)
      continue;
    sums.runs += kernel.runs;
    sums.bytes += kernel.runs * kernel.runBytes;
    sums.flops += kernel.runs * kernel.runFlops;
    for (auto [sum, each] : llvm::zip_equal(sums.floors, page.plan.machines))
      sum += double(kernel.runs) *
             each.floor(kernel.runBytes, kernel.runFlops, kernel.f32);
    const MeasuredKernel *own = measuredOf(page, kernel);
    sums.isMeasured &= own != nullptr;
    if (!own)
      continue;
    sums.measured += double(kernel.runs) * own->seconds;
    if (machine)
      sums.measuredFloor +=
          double(kernel.runs) *
          machine->floor(static_cast<int64_t>(own->bytes),
                         static_cast<int64_t>(own->operations), kernel.f32);
  }
  return sums;
}

/// The rows below an entry's kernels: "all of decode", and the tokens per
/// second of such calls.
static std::string totalRows(const Page &page, llvm::StringRef entry) {
  EntrySums sums = sumsOf(page, entry);
  bool isOfOne = entry == "decode" || entry == "batch";
  double tokens = isOfOne ? 1 : double(page.plan.chunk);
  std::string times, rates;
  for (double seconds : sums.floors) {
    times += numberCell(microseconds(seconds));
    rates += numberCell(seconds > 0 ? quantity(tokens / seconds, "") : "–");
  }
  if (!page.measured.kernels.empty()) {
    // How many tokens a measured call of other entries had is not known.
    bool hasRate = sums.isMeasured && isOfOne && sums.measured > 0;
    times += numberCell(sums.isMeasured ? microseconds(sums.measured) : "–");
    rates += numberCell(hasRate ? quantity(tokens / sums.measured, "") : "–");
    bool isKnown = sums.isMeasured && sums.measuredFloor > 0;
    times += numberCell(
        isKnown ? threeDigits(sums.measured / sums.measuredFloor) : "–");
    rates += "<td></td>";
  }
  double intensity = sums.bytes ? double(sums.flops) / double(sums.bytes) : 0;
  std::string text =
      "<tr class=\"total\"><th scope=\"row\">all of " + escape(entry) +
      "</th><td></td>" + numberCell(llvm::Twine(sums.runs).str()) +
      numberCell(quantity(double(sums.bytes), "B")) +
      numberCell(quantity(double(sums.flops), "")) +
      numberCell(llvm::formatv("{0:F1}", intensity).str()) + times + "</tr>\n";
  if (rates.empty())
    return text;
  return text +
         "<tr class=\"total\"><th scope=\"row\">tokens/s</th>"
         "<td colspan=\"5\"></td>" +
         rates + "</tr>\n";
}

static std::string kernelTable(const Page &page) {
  std::string text = "<table id=\"kernel-table\"><thead><tr>"
                     "<th scope=\"col\">kernel</th>"
                     "<th scope=\"col\">module</th>"
                     "<th scope=\"col\" class=\"n\">runs</th>"
                     "<th scope=\"col\" class=\"n\">bytes</th>"
                     "<th scope=\"col\" class=\"n\">operations</th>"
                     "<th scope=\"col\" class=\"n\">op/B</th>";
  for (const Machine &machine : page.plan.machines)
    text += "<th scope=\"col\" class=\"n\">floor µs, " + escape(machine.name) +
            "</th>";
  if (!page.measured.kernels.empty())
    text += "<th scope=\"col\" class=\"n\">measured µs</th>"
            "<th scope=\"col\" class=\"n\">over floor</th>";
  text += "</tr></thead>\n";
  llvm::StringRef entry;
  for (const PlanKernel &kernel : page.plan.kernels) {
    if (entry != kernel.entry)
      text += (entry.empty() ? "" : totalRows(page, entry) + "</tbody>") +
              "<tbody>";
    entry = kernel.entry;
    text += kernelRow(page, kernel);
  }
  return text + totalRows(page, entry) + "</tbody></table>";
}

static std::string ledgerTable(llvm::ArrayRef<LedgerRow> rows) {
  if (rows.empty())
    return "<p>The input was no config.</p>";
  std::string text = "<table id=\"ledger-table\"><thead><tr>"
                     "<th scope=\"col\">key</th><th scope=\"col\">value</th>"
                     "<th scope=\"col\">fate</th><th scope=\"col\">why</th>"
                     "</tr></thead><tbody>\n";
  for (const LedgerRow &row : rows)
    text += "<tr><th scope=\"row\">" + escape(row.key) + "</th>" +
            cell(row.value) + cell(row.fate) + cell(row.note) + "</tr>\n";
  return text + "</tbody></table>";
}

static std::string fact(llvm::StringRef name, llvm::StringRef value) {
  return "<div><dt>" + escape(name) + "</dt><dd>" + escape(value) +
         "</dd></div>\n";
}

static const char *deviceName(Device device) {
  return device == Device::Cpu ? "cpu" : "cuda";
}

static std::string facts(const Page &page) {
  mlir::DictionaryAttr model = page.compilation.model();
  auto number = [&](const char *key) {
    return llvm::Twine(getInteger(model, key).value_or(0)).str();
  };
  std::string text =
      fact("parameters", quantity(double(page.plan.costs.parameters), ""));
  if (int64_t idle = page.plan.costs.idleParameters)
    text += fact("used by a token",
                 quantity(double(page.plan.costs.parameters - idle), ""));
  // For a program without a config, the number of layers is only known from the
  // caches, so it is not shown.
  if (getInteger(model, "layers") && !page.compilation.ledger().empty())
    text += fact("layers", number("layers"));
  if (auto type = getText(model, "dtype"))
    text += fact("type", *type);
  text += fact("vocabulary", number("vocab_size"));
  text += fact("context", number("max_seq") + " tokens");
  int64_t bytes =
      page.plan.costs.weightBytes(false) + page.plan.costs.weightBytes(true);
  text += fact("weights read, a token", quantity(double(bytes), "B"));
  text += fact("KV cache, a position",
               quantity(double(page.plan.costs.bytesOfPosition()), "B"));
  for (const auto &[device, arenas] : page.trail.arenas) {
    int64_t most = 0;
    for (const ArenaPlan &arena : arenas)
      most = std::max(most, arena.bytes);
    text += fact(std::string("arena, ") + deviceName(device),
                 quantity(double(most), "B"));
  }
  return text;
}

static std::string kernelNote(const Page &page) {
  std::string text = "Bytes of weights and caches, and operations, of one run, "
                     "and below them of all runs of a call; "
                     "prefill takes " +
                     llvm::Twine(page.plan.chunk).str() + " tokens, after " +
                     llvm::Twine(page.plan.depth).str() + " others.";
  if (page.plan.machines.empty())
    text += " --machine=FILE, written by cria-bench --save-machine, adds "
            "floors.";
  else
    text += " A floor is the time in which the machine reads the bytes, or "
            "does the operations, whichever is longer.";
  if (const Machine *machine = measuredOn(page))
    text += " \"Over floor\" is the measured time divided by the floor on " +
            machine->name + " of the measured step.";
  return escape(text);
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

/// The lines of a function. For each line, `from` has the line of the phase
/// before from which it comes: a number, a list of numbers, or -1 for none.
static json::Object chunkJson(const Listing &listing, int begin, int end) {
  json::Array lines, from;
  int last = std::min(end, begin + kMostLines);
  for (int line = begin; line < last; ++line) {
    lines.push_back(json::fixUTF8(listing.lines[line]));
    const std::vector<int> &origins = listing.from[line];
    if (origins.size() == 1)
      from.push_back(origins.front());
    else if (origins.empty())
      from.push_back(-1);
    else
      from.push_back(json::Array(origins));
  }
  return json::Object{{"first", begin},
                      {"lines", std::move(lines)},
                      {"from", std::move(from)},
                      {"left", end - last}};
}

/// Whether `name` is the function of a kernel at some phase: the kernel
/// function itself, one of its launches, or the body of one of its parallel
/// loops.
static bool isOf(llvm::StringRef name, llvm::StringRef function) {
  return name.consume_front(function) &&
         (name.empty() || name[0] == '_' || name[0] == '.');
}

/// The names of the chunks that a listing has of a kernel.
static json::Array chunksOf(const Listing &listing, llvm::StringRef function) {
  json::Array names;
  for (const auto &[name, range] : listing.functions)
    if (listing.parent < 0 || isOf(name, function))
      names.push_back(name);
  return names;
}

static json::Array listingsJson(const Trail &trail) {
  json::Array listings;
  for (const Listing &listing : trail.listings) {
    json::Object chunks;
    for (const auto &[name, range] : listing.functions)
      for (const GraphNode &node : trail.graph)
        if (listing.parent < 0 || isOf(name, node.function))
          chunks[name] = chunkJson(listing, range.first, range.second);
    listings.push_back(json::Object{{"phase", listing.phase},
                                    {"parent", listing.parent},
                                    {"chunks", std::move(chunks)}});
  }
  return listings;
}

static json::Array graphJson(const Trail &trail) {
  json::Array graph;
  for (const GraphNode &node : trail.graph) {
    json::Array ops, chunks;
    for (const auto &[op, path] : node.ops)
      ops.push_back(json::Array{op, path});
    for (const Listing &listing : trail.listings)
      chunks.push_back(chunksOf(listing, node.function));
    graph.push_back(json::Object{{"function", node.function},
                                 {"ops", std::move(ops)},
                                 {"chunks", std::move(chunks)},
                                 {"inputs", json::Array(node.inputs)},
                                 {"carried", json::Array(node.carried)},
                                 {"runs", node.runs},
                                 {"loop", node.loop}});
  }
  return graph;
}

static json::Object arenaJson(const ArenaPlan &plan) {
  json::Array buffers;
  for (const ArenaBuffer &buffer : plan.buffers)
    buffers.push_back(
        json::Array{buffer.offset, buffer.bytes, buffer.first, buffer.last});
  return json::Object{{"entry", plan.entry},
                      {"bytes", plan.bytes},
                      {"steps", json::Array(plan.steps)},
                      {"buffers", std::move(buffers)}};
}

/// The plan's JSON, with the measurements of its kernels.
static json::Object plannedJson(const Page &page) {
  json::Object plan = planJson(page.plan);
  for (const char *key : {"modules", "machine_code", "cpus"})
    plan.erase(key);
  json::Array &kernels = *plan.getArray("kernels");
  for (auto [value, kernel] : llvm::zip_equal(kernels, page.plan.kernels))
    if (const MeasuredKernel *own = measuredOf(page, kernel))
      (*value.getAsObject())["measured"] =
          json::Object{{"seconds", own->seconds},
                       {"bytes", own->bytes},
                       {"operations", own->operations},
                       {"over", overFloor(page, kernel)}};
  if (const Machine *machine = measuredOn(page))
    plan["measured_on"] = machine->name;
  return plan;
}

static std::string dataOf(const Page &page) {
  json::Array devices;
  for (const auto &[device, listings] : page.trail.ofDevice) {
    json::Array arenas;
    if (auto at = page.trail.arenas.find(device); at != page.trail.arenas.end())
      for (const ArenaPlan &plan : at->second)
        arenas.push_back(arenaJson(plan));
    devices.push_back(json::Object{{"name", deviceName(device)},
                                   {"listings", json::Array(listings)},
                                   {"arenas", std::move(arenas)}});
  }
  json::Object data{{"devices", std::move(devices)},
                    {"listings", listingsJson(page.trail)},
                    {"graph", graphJson(page.trail)},
                    {"plan", plannedJson(page)}};
  std::string text = llvm::formatv("{0}", json::Value(std::move(data))).str();
  // Escapes "<", so that no name in the data can end the script element.
  std::string result;
  for (char c : text)
    if (c == '<')
      result += "\\u003c";
    else
      result += c;
  return result;
}

//===----------------------------------------------------------------------===//
// The page
//===----------------------------------------------------------------------===//

static std::string valueOf(const Page &page, llvm::StringRef name) {
  if (name == "title")
    return escape(page.title);
  if (name == "css")
    return textOf(kCss).str();
  if (name == "js")
    return textOf(kJs).str();
  if (name == "compiler")
    return "cria " CRIA_VERSION;
  if (name == "facts")
    return facts(page);
  if (name == "kernels")
    return kernelTable(page);
  if (name == "kernel-note")
    return kernelNote(page);
  if (name == "ledger")
    return ledgerTable(page.compilation.ledger());
  assert(name == "data" && "page.html has an unknown place");
  return dataOf(page);
}

void cria::printHtml(const Page &page, llvm::raw_ostream &os) {
  llvm::StringRef rest = textOf(kHtml);
  while (!rest.empty()) {
    auto [before, after] = rest.split("{{");
    os << before;
    auto [name, behind] = after.split("}}");
    if (!name.empty())
      os << valueOf(page, name);
    rest = behind;
  }
}
