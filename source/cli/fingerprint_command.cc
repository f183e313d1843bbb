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

namespace idempotency {
namespace {

constexpr std::array<Option, 10> Options = {{
    {"method", "METHOD", "the request's method; must be given"},
    {"path", "PATH", "its path with the query; must be given"},
    {"header", "'NAME: VALUE'", "one of its headers", true},
    {"body", "FILE", "a file with its body, - for stdin; no body by default"},
    ModeOption,
    PointerOption,
    ExcludePointerOption,
    CountHeaderOption,
    {"principal", "TEXT", "who sends it; counts only if given"},
    {"explain", "", "show the parts that went into the fingerprint, too"},
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
std::string explainPart(const FingerprintPart& part) {
  if (part.name == "version") {
    return fmt::format("version: {}\n", static_cast<uint8_t>(part.bytes.at(0)));
  }
  if (isPrintable(part.bytes)) {
    return fmt::format("{}: {}\n", part.name, part.bytes);
  }
  return fmt::format("{}, escaped: {}\n", printable(part.name), escaped(part.bytes));
}

absl::StatusOr<ExitCode> run(const Arguments& arguments, Console& console) {
  auto rules = readFingerprintRules(arguments);
  if (!rules.ok()) {
    return rules.status();
  }
  rules->principal = arguments.has("principal");
  const auto request = readRequest(arguments);
  if (!request.ok()) {
    return request.status();
  }
  const auto explanation =
      explainRequest(*request, *rules, arguments.value("principal").value_or(""));
  if (!explanation.ok()) {
    return explanation.status();
  }
  console.out << toHex(explanation->result.fingerprint) << '\n';
  if (!arguments.has("explain")) {
    return ExitCode::Done;
  }
  for (const FingerprintPart& part : explanation->parts) {
    console.out << explainPart(part);
  }
  if (explanation->result.body_form == BodyForm::RejectedJson) {
    console.out << fmt::format("not compared as JSON: {}\n",
                               describe(explanation->result.rejection));
  }
  return ExitCode::Done;
}

}  // namespace

const Command FingerprintCommand = {
    .words = "fingerprint",
    .summary = "show the fingerprint of a request",
    .description =
        "Prints the fingerprint by which the filter tells whether two requests with one key are "
        "the\n"
        "same: a version byte and a SHA-256, 66 hexadecimal digits, as the first line.\n"
        "\n"
        "With --explain a line follows for each part that was hashed, as 'NAME: BYTES', or as\n"
        "'NAME, escaped: BYTES' with C escapes where the bytes are not plain text.",
    .options = Options,
    .operands = {},
    .run = run,
};

}  // namespace idempotency
