#include "source/cli/fingerprint_diff_command.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>

#include "source/cli/fingerprint_options.h"
#include "source/cli/input_file.h"
#include "source/cli/printable.h"
#include "source/cli/request_text.h"
#include "source/fingerprint/hex.h"

namespace idempotency::cli {
namespace {

constexpr std::array<Option, 8> Options = {{ModeOption, PointerOption, ExcludePointerOption,
                                            CountHeaderOption, QueryOption, NoAuthorityOption,
                                            SchemeOption, AlgorithmOption}};

constexpr std::array<Operand, 2> Operands = {{
    {"A", "file with a request, - for stdin"},
    {"B", "file with the other request, - for stdin"},
}};

// How much of a part is shown: so many bytes before and after the first difference.
constexpr size_t BytesBefore = 24;
constexpr size_t BytesAfter = 56;

using Parts = std::vector<fingerprint::FingerprintPart>;

// What a part is of, without the form that it has: "body (bytes)" and "body (canonical JSON)" are
// both the body.
std::string_view subject(std::string_view name) {
  const size_t form = name.rfind(" (");
  return name.ends_with(')') && form != std::string_view::npos ? name.substr(0, form) : name;
}

// Pointers, since a body may be large.
using PartsOfSubject = std::vector<const fingerprint::FingerprintPart*>;

PartsOfSubject partsOf(const Parts& parts, std::string_view wanted) {
  PartsOfSubject result;
  for (const fingerprint::FingerprintPart& part : parts) {
    if (subject(part.name) == wanted) {
      result.push_back(&part);
    }
  }
  return result;
}

bool equal(const PartsOfSubject& a, const PartsOfSubject& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const fingerprint::FingerprintPart* x,
                       const fingerprint::FingerprintPart* y) { return *x == *y; });
}

// The subjects of both, each once, in the order of hashing.
std::vector<std::string> subjects(const Parts& a, const Parts& b) {
  std::vector<std::string> result;
  for (const Parts* const parts : {&a, &b}) {
    for (const fingerprint::FingerprintPart& part : *parts) {
      const std::string name(subject(part.name));
      if (std::find(result.begin(), result.end(), name) == result.end()) {
        result.push_back(name);
      }
    }
  }
  return result;
}

bool isInsideCharacter(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80;
}

// The bytes around `at`, with dots where something was left out. Characters of UTF-8 stay whole.
std::string excerpt(std::string_view text, size_t at) {
  size_t begin = at > BytesBefore ? at - BytesBefore : 0;
  while (begin > 0 && isInsideCharacter(text, begin)) {
    --begin;
  }
  size_t end = std::min(text.size(), at + BytesAfter);
  while (isInsideCharacter(text, end)) {
    ++end;
  }
  return fmt::format("{}{}{}", begin > 0 ? "..." : "", printable(text.substr(begin, end - begin)),
                     end < text.size() ? "..." : "");
}

size_t firstDifference(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}

void showSide(std::string_view side, const PartsOfSubject& parts, const PartsOfSubject& others,
              Console& console) {
  if (parts.empty()) {
    console.out << fmt::format("  {}: none\n", side);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string& bytes = parts[i]->bytes;
    const size_t at = i < others.size() ? firstDifference(bytes, others[i]->bytes) : 0;
    console.out << fmt::format("  {}: {}: {}\n", side, printable(parts[i]->name),
                               excerpt(bytes, at));
  }
}

void showDifferences(const Parts& a, const Parts& b, Console& console) {
  for (const std::string& name : subjects(a, b)) {
    const PartsOfSubject of_a = partsOf(a, name);
    const PartsOfSubject of_b = partsOf(b, name);
    if (!equal(of_a, of_b)) {
      console.out << fmt::format("different: {}\n", printable(name));
      showSide("A", of_a, of_b, console);
      showSide("B", of_b, of_a, console);
    }
  }
}

absl::StatusOr<fingerprint::FingerprintExplanation> explainFile(
    std::string_view file, const fingerprint::FingerprintRules& rules,
    const FingerprintView& view) {
  const auto text = readInputFile(file);
  if (!text.ok()) {
    return text.status();
  }
  const auto request = parseRequestText(*text);
  absl::Status status = request.status();
  if (request.ok()) {
    auto explanation = explainRequest(*request, rules, view, "");
    if (explanation.ok()) {
      return explanation;
    }
    status = explanation.status();
  }
  return absl::Status(status.code(), fmt::format("{}: {}", printable(file == "-" ? "stdin" : file),
                                                 std::string(status.message())));
}

absl::StatusOr<ExitCode> run(const Arguments& arguments, Console& console) {
  const auto rules = readFingerprintRules(arguments);
  if (!rules.ok()) {
    return rules.status();
  }
  const auto view = readFingerprintView(arguments);
  if (!view.ok()) {
    return view.status();
  }
  const std::string_view file_a = arguments.operands()[0];
  const std::string_view file_b = arguments.operands()[1];
  if (file_a == "-" && file_b == "-") {
    return absl::InvalidArgumentError("only one of the requests can come from stdin");
  }
  const auto a = explainFile(file_a, *rules, *view);
  if (!a.ok()) {
    return a.status();
  }
  const auto b = explainFile(file_b, *rules, *view);
  if (!b.ok()) {
    return b.status();
  }
  if (a->result.fingerprint == b->result.fingerprint) {
    console.out << fmt::format("same: {}\n", fingerprint::toHex(a->result.fingerprint));
    return ExitCode::Done;
  }
  showDifferences(a->parts, b->parts, console);
  return ExitCode::Refused;
}

}  // namespace

const Command FingerprintDiffCommand = {
    .words = "fingerprint diff",
    .summary = "show which parts of two requests differ",
    .description =
        "Compares two requests as the filter would, with version 2 of the algorithm, or with "
        "version 1\n"
        "(for records of older builds) if --algorithm says so. Prints 'same: FINGERPRINT' and "
        "exits "
        "with\n"
        "0, or prints 'different: PART' with an excerpt of both for each part that differs, and "
        "exits\n"
        "with 1.\n"
        "\n"
        "A file contains the text of an HTTP/1.1 request: the request line, header lines, an "
        "empty\n"
        "line, and the body, which is everything that follows, byte for byte. Lines end with LF "
        "or\n"
        "CRLF. A Content-Length, if present, must match the body; Transfer-Encoding is refused.\n"
        "Example:\n"
        "\n"
        "  POST /payments?currency=EUR HTTP/1.1\n"
        "  Host: api.example.com\n"
        "  Content-Type: application/json\n"
        "\n"
        "  {\"amount\": 100}",
    .options = Options,
    .operands = Operands,
    .run = run,
};

}  // namespace idempotency::cli
