#include "source/cli/fingerprint_command.h"

#include <array>
#include <fmt/format.h>
#include <string>
#include <utility>

#include "source/cli/fingerprint_options.h"
#include "source/cli/input_file.h"
#include "source/cli/printable.h"
#include "source/cli/request_text.h"
#include "source/fingerprint/hex.h"
#include "source/fingerprint/json_rejection.h"

namespace idempotency::cli {
namespace {

constexpr std::array<Option, 14> Options = {{
    {"method", "METHOD", "method of the request (required)"},
    {"path", "PATH", "path with the query (required)"},
    {"header", "'NAME: VALUE'", "a header of the request, including Host", true},
    {"body", "FILE", "file with the body, - for stdin (default: no body)"},
    ModeOption,
    PointerOption,
    ExcludePointerOption,
    CountHeaderOption,
    QueryOption,
    NoAuthorityOption,
    SchemeOption,
    {"principal", "TEXT", "principal; compared only if set"},
    AlgorithmOption,
    {"explain", "", "also show the parts that the first fingerprint is computed from"},
}};

absl::StatusOr<RequestText> readRequest(const Arguments& arguments) {
  RequestText request;
  const auto method = arguments.required("method");
  if (!method.ok()) {
    return method.status();
  }
  const auto path = arguments.required("path");
  if (!path.ok()) {
    return path.status();
  }
  absl::Status status = checkMethod(*method);
  status.Update(checkPath(*path));
  if (!status.ok()) {
    return status;
  }
  request.method = *method;
  request.path = *path;
  for (const std::string_view line : arguments.values("header")) {
    auto header = parseHeaderLine(line);
    if (!header.ok()) {
      return header.status();
    }
    request.headers.push_back(*std::move(header));
  }
  if (const auto file = arguments.value("body")) {
    auto body = readInputFile(*file);
    if (!body.ok()) {
      return body.status();
    }
    request.body = *std::move(body);
  }
  return request;
}

// One line per part, so that the output can be read by line tools as well.
std::string explainPart(const fingerprint::FingerprintPart& part) {
  if (part.name == "version") {
    return fmt::format("version: {}\n", static_cast<uint8_t>(part.bytes.at(0)));
  }
  if (isPrintable(part.bytes)) {
    return fmt::format("{}: {}\n", part.name, part.bytes);
  }
  return fmt::format("{}, escaped: {}\n", printable(part.name), escaped(part.bytes));
}

// By all versions but the newest, as records of older builds have it.
absl::Status showOlder(const RequestText& request, const fingerprint::FingerprintRules& rules,
                       FingerprintView view, std::string_view principal, Console& console) {
  for (uint8_t version = fingerprint::FingerprintVersion - 1;
       version >= fingerprint::OldestFingerprintVersion; --version) {
    view.version = version;
    const auto explanation = explainRequest(request, rules, view, principal);
    if (!explanation.ok()) {
      return explanation.status();
    }
    console.out << fingerprint::toHex(explanation->result.fingerprint) << '\n';
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> run(const Arguments& arguments, Console& console) {
  auto rules = readFingerprintRules(arguments);
  if (!rules.ok()) {
    return rules.status();
  }
  rules->principal = arguments.has("principal");
  const auto view = readFingerprintView(arguments);
  if (!view.ok()) {
    return view.status();
  }
  const auto request = readRequest(arguments);
  if (!request.ok()) {
    return request.status();
  }
  const std::string_view principal = arguments.value("principal").value_or("");
  const auto explanation = explainRequest(*request, *rules, *view, principal);
  if (!explanation.ok()) {
    return explanation.status();
  }
  console.out << fingerprint::toHex(explanation->result.fingerprint) << '\n';
  if (!view->version.has_value()) {
    if (const absl::Status status = showOlder(*request, *rules, *view, principal, console);
        !status.ok()) {
      return status;
    }
  }
  if (!arguments.has("explain")) {
    return ExitCode::Done;
  }
  for (const fingerprint::FingerprintPart& part : explanation->parts) {
    console.out << explainPart(part);
  }
  if (explanation->result.body_form == fingerprint::BodyForm::RejectedJson) {
    console.out << fmt::format("not compared as JSON: {}\n",
                               fingerprint::describe(explanation->result.rejection));
  }
  return ExitCode::Done;
}

}  // namespace

const Command FingerprintCommand = {
    .words = "fingerprint",
    .summary = "show the fingerprint of a request",
    .description =
        "Prints the fingerprint that the filter uses to decide whether two requests with the same "
        "key\n"
        "are the same request. It has 66 hexadecimal digits: the version of the algorithm in one "
        "byte,\n"
        "and a SHA-256. The first line uses version 2, which the filter stores. The second uses "
        "version\n"
        "1, which records of older builds have. --algorithm prints only one of them.\n"
        "\n"
        "With --explain, a line follows for each hashed part: 'NAME: BYTES', or 'NAME, escaped: "
        "BYTES'\n"
        "with C escapes if the bytes are not plain text.",
    .options = Options,
    .operands = {},
    .run = run,
};

}  // namespace idempotency::cli
