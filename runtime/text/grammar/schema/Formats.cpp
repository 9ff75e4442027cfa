#include "runtime/text/grammar/schema/Formats.h"

#include <utility>

namespace cria::grammar {

const char *const formatNames = "date, time, date-time, duration, uuid, email, "
                                "hostname, ipv4, ipv6 and uri";

#define DATE                                                                   \
  "(\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])"                           \
  "|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))"                  \
  "|(\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"      \
  "-02-29)"
#define TIME                                                                   \
  "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?"                           \
  "(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define BYTE "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4 BYTE "(\\." BYTE "){3}"
#define HEX "[0-9A-Fa-f]{1,4}"
#define LABEL "[0-9A-Za-z]([0-9A-Za-z-]{0,61}[0-9A-Za-z])?"

// Parts of a URI, as RFC 3986 calls them.
#define NAME "([0-9A-Za-z._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})"
#define PCHAR "(" NAME "|[:@])"
#define PATH "(/" PCHAR "*)*"

const char *formatRegex(std::string_view name) {
  static constexpr std::pair<std::string_view, const char *> formats[] = {
      {"date", DATE},
      {"time", TIME},
      {"date-time", DATE "T" TIME},
      {"duration", "P(\\d+W|(\\d+Y(\\d+M(\\d+D)?)?|\\d+M(\\d+D)?|\\d+D)"
                   "(T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S))?"
                   "|T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S))"},
      {"uuid", "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"},
      {"email", "[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]+"
                "(\\.[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]+)*"
                "@" LABEL "(\\." LABEL ")*"},
      {"hostname", LABEL "(\\." LABEL ")*"},
      {"ipv4", IPV4},
      {"ipv6", "(" HEX ":){7}" HEX "|(" HEX ":){1,7}:|(" HEX ":){1,6}:" HEX
               "|(" HEX ":){1,5}(:" HEX "){1,2}|(" HEX ":){1,4}(:" HEX
               "){1,3}|(" HEX ":){1,3}(:" HEX "){1,4}|(" HEX ":){1,2}(:" HEX
               "){1,5}|" HEX ":(:" HEX "){1,6}|:((:" HEX "){1,7}|:)|(" HEX
               ":){6}" IPV4 "|::(" HEX ":){0,5}" IPV4},
      {"uri", "[A-Za-z][0-9A-Za-z+.-]*:"
              "(//((" NAME "|:)*@)?" NAME "*(:\\d*)?" PATH "|/?" PCHAR "+" PATH
              "|/)?(\\?(" PCHAR "|[/?])*)?(#(" PCHAR "|[/?])*)?"}};
  for (auto [known, regex] : formats)
    if (known == name)
      return regex;
  return nullptr;
}

} // namespace cria::grammar
